//! The list of cases, and the macro that makes tests of them.

/// The cases of a group, given to another macro of this crate: `group!(exclusive => tests(…))`.
#[doc(hidden)]
#[macro_export]
macro_rules! group {
    (exclusive => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            exclusion { sections_exclude_each_other two_threads oversubscription mixed_operations nested_locks }
            trying {
                try_succeeds_exactly_when_compatible own_try_fails try_takes_a_free_lock failed_tries_do_no_harm only_tries
            }
            wakeups {
                ping_pong chase_of_three chase_of_four sleeping_contenders almost_idle every_way a_queue_drains
                a_long_queue_drains
            }
            lives { exit_of_a_holder drop_of_a_held_lock forgotten_guard }
        }
    };
    (churn => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock: lives { many_short_threads exits_while_others_wait } }
    };
    (fair => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            fairness { a_waiter_gets_past_a_barger a_waiter_gets_past_a_crowd handoff_to_a_waiter }
        }
    };
    (fair_shared => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            fairness { a_writer_gets_past_overlapping_readers a_reader_gets_past_writers }
        }
    };
    (timed => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            timeouts {
                zero_timeout_does_not_wait a_free_lock_is_taken_after_the_deadline never_early a_far_deadline_is_no_deadline
                a_leaver_in_every_place timeout_against_release the_patient_get_through
            }
            cancelling {
                cancelled_before_the_wait a_cancelled_token_does_not_stop_a_free_lock a_live_token_does_not_disturb
                cancelled_during_the_wait token_and_deadline one_token_for_two_locks cancel_against_release
            }
        }
    };
    (shared => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            sharing {
                readers_overlap queued_readers_overlap readers_and_writers readers_beside_writers readers_only
                downgrade_lets_readers_in_and_keeps_writers_out downgrade_is_one_step tries_of_both_kinds at_rest_again
            }
        }
    };
    (references => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            references {
                references_are_conserved exactly_one_has_the_last the_dead_stay_dead the_owner_is_alone_with_the_count
            }
        }
    };
    (parking => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Lock:
            parking { growing_loses_nobody growing_hides_no_sleeper wakes_whom_it_should deadlines_and_wakes_agree }
        }
    };
    (counting => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Count:
            counting {
                units_are_conserved units_are_independent tries_do_not_wait the_limit bursts_of_events ping_pong
                a_leaver_in_every_place timeout_against_up the_patient_get_through
            }
        }
    };
    (weighing => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Count:
            weighing {
                sizes_are_conserved units_come_one_by_one one_up_reaches_every_waiter
                a_leaver_lets_smaller_ones_in
            }
        }
    };
    (fair_sizes => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Count: weighing { every_size_gets_through } }
    };
    (quick_ups => $then:ident $arguments:tt) => {
        $crate::$then! { $arguments Count: counting { quick_ups_reach_every_waiter } }
    };
}

/// One `#[test]` for each case of the groups: all that a new lock needs to be tested like the
/// others.
///
/// | group | for |
/// |---|---|
/// | `exclusive` | every [`Lock`](crate::lock::Lock) |
/// | `churn` | the same, where a run may start further runs: 10,000 short threads |
/// | `fair` | locks with a bound on bypass |
/// | `timed` | every [`Timed`](crate::lock::Timed) |
/// | `shared` | every [`Shared`](crate::lock::Shared) |
/// | `fair_shared` | those with a bound for readers and writers |
/// | `references` | every [`References`](crate::lock::References) |
/// | `parking` | every [`Hashed`](crate::lock::Hashed) |
/// | `counting` | every [`Count`](crate::lock::Count) |
/// | `weighing` | every [`Weigh`](crate::lock::Weigh) |
/// | `fair_sizes` | those with a bound on bypass |
/// | `quick_ups` | those that do not lose wake-ups |
///
/// ```
/// use lockyard::mutex::RawMutex;
/// use lockyard::platform::linux::Linux;
///
/// lockyard_check::conformance!(mutex: RawMutex<Linux>, [exclusive, timed, fair]);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance {
    ($name:ident: $lock:ty, [$($group:ident),* $(,)?]) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            type Subject = $lock;
            $(mod $group {
                use super::Subject;
                $crate::group!($group => tests());
            })*
        }
    };
}

/// [`conformance!`] of every lock of the [list](lockyard_catalog::list) that is performed on a
/// stage, with the groups of what it can do; natively also of what it promises.
///
/// ```
/// # use lockyard::platform::linux::Linux;
/// lockyard_check::conformance_of!(native, Linux);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! conformance_of {
    ($stage:ident, $platform:ty) => {
        $crate::catalog::locks! { $stage => [$crate::listed_lock] ($stage $platform) }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! listed_lock {
    ((native $platform:ty) $lock:ident weigh [fair]) => {
        $crate::groups! { weigh => conformed ($lock $platform) fair_sizes }
    };
    ((native $platform:ty) $lock:ident $trait:ident [$($promise:ident)*]) => {
        $crate::groups! { $trait => conformed ($lock $platform) $($promise)* }
    };
    ((lending $platform:ty) $($line:tt)*) => {
        $crate::listed_lock! { (native $platform) $($line)* }
    };
    (($stage:ident $platform:ty) $lock:ident $trait:ident $promises:tt) => {
        $crate::groups! { $trait => conformed ($lock $platform) }
    };
}

/// The groups of a trait of the list and others, given to another macro of this crate.
#[doc(hidden)]
#[macro_export]
macro_rules! groups {
    (lock => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments exclusive $($more)* }
    };
    (timed => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments exclusive timed $($more)* }
    };
    (shared => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments exclusive shared $($more)* }
    };
    (shared_timed => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments exclusive timed shared $($more)* }
    };
    (references => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments exclusive references $($more)* }
    };
    (hashed => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments exclusive parking $($more)* }
    };
    // As a lock it is another line of the list.
    (count => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments counting quick_ups }
    };
    (weigh => $then:ident $arguments:tt $($more:ident)*) => {
        $crate::$then! { $arguments counting quick_ups weighing $($more)* }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformed {
    (($lock:ident $platform:ty) $($group:ident)*) => {
        $crate::conformance!($lock: $crate::catalog::types::$lock<$platform>, [$($group),*]);
    };
}

/// The cases of a list of groups, by name: `cases!((LOCK) GROUP…)`.
#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    (($lock:ty) $($group:ident)*) => {
        [$($crate::group!($group => listed($lock)) as &[(&'static str, fn())]),*].concat()
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! tests {
    (() $kind:ident: $($file:ident { $($case:ident)* })*) => {
        $(mod $file {
            use super::Subject;
            $(#[test]
            fn $case() {
                <<Subject as $crate::lock::$kind>::P as $crate::stage::Stage>::perform(
                    concat!(module_path!(), "::", stringify!($case)),
                    $crate::cases::$file::$case::<Subject>,
                );
            })*
        })*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! listed {
    (($lock:ty) $kind:ident: $($file:ident { $($case:ident)* })*) => {
        &[$($((
            concat!(stringify!($file), "::", stringify!($case)),
            $crate::cases::$file::$case::<$lock> as fn(),
        ),)*)*]
    };
}

#[cfg(test)]
mod tests {
    /// Every case is in a group: one that is not would never run.
    #[test]
    fn no_case_is_forgotten() {
        let list = include_str!("suite.rs");
        for file in [
            include_str!("cases/cancelling.rs"),
            include_str!("cases/counting.rs"),
            include_str!("cases/exclusion.rs"),
            include_str!("cases/fairness.rs"),
            include_str!("cases/lives.rs"),
            include_str!("cases/parking.rs"),
            include_str!("cases/references.rs"),
            include_str!("cases/sharing.rs"),
            include_str!("cases/timeouts.rs"),
            include_str!("cases/trying.rs"),
            include_str!("cases/wakeups.rs"),
            include_str!("cases/weighing.rs"),
        ] {
            for case in file.split("\npub fn ").skip(1) {
                let name = case.split('<').next().unwrap_or_default();
                assert!(list.split_whitespace().any(|word| word == name), "{name} is in no group");
            }
        }
    }
}
