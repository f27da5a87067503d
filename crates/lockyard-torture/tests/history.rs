//! All 32 bugs of the list: the historical form is shown to be wrong by the evidence named, the
//! repaired form passes the same exploration.

use lockyard_torture::history::all;

#[test]
fn every_bug_of_the_list_is_found_and_its_repair_passes() {
    let wrong: Vec<String> = all().iter().filter_map(|bug| bug.check().err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let numbers: Vec<u32> = all().iter().map(|bug| bug.number).collect();
    assert_eq!(numbers, (1..=32).collect::<Vec<u32>>());
}
