//! Which locks are measured: `--lock`, `--peer`, `--policy` and `--family` turned into groups of
//! candidates.
//!
//! A group is a set of locks that is compared among itself, and whose fastest peer is "the best
//! peer". Without named peers there is one group per family. Where the user names peers, all that
//! was named is one group: that is how a spinlock is laid beside sleeping mutexes.

use lockyard_work::{Candidate, Family, Origin};

use crate::failure::Failure;
use crate::suggest;

/// Locks that are compared with each other.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// What they have in common.
    pub(crate) name: String,
    /// The locks: Lockyard's first.
    pub(crate) candidates: Vec<&'static Candidate>,
}

/// What the user asked for, as text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// `--lock`.
    pub(crate) lock: Option<&'a str>,
    /// `--peer`.
    pub(crate) peer: &'a str,
    /// `--policy`.
    pub(crate) policy: Option<&'a str>,
    /// `--family`.
    pub(crate) family: Option<&'a str>,
}

/// The families named by `--family`.
///
/// # Errors
/// One line for an unknown family.
pub(crate) fn families(text: &str) -> Result<Vec<Family>, Failure> {
    if text.trim() == "all" {
        return Ok(Family::ALL.to_vec());
    }
    let names: Vec<&str> = Family::ALL.iter().map(|family| family.name()).collect();
    let mut chosen = Vec::new();
    for name in text.split(',') {
        chosen.push(suggest::known("family", "--family", name.trim(), &names)?);
    }
    Ok(Family::ALL.into_iter().filter(|family| chosen.contains(&family.name())).collect())
}

/// Each of `families` with the default policies of its locks, baselines apart, and all its peers.
pub(crate) fn defaults(all: &'static [Candidate], families: &[Family]) -> Vec<Group> {
    let group = |family: &Family| Group {
        name: family.name().to_owned(),
        candidates: all
            .iter()
            .filter(|candidate| candidate.family == *family)
            .filter(|candidate| candidate.origin == Origin::Peer || is_default(all, candidate) && !candidate.by_name)
            .collect(),
    };
    families.iter().map(group).filter(|group| !group.candidates.is_empty()).collect()
}

/// Chooses among `all`.
///
/// # Errors
/// One line for an unknown name, with the nearest valid one; or for a choice that leaves nothing to
/// measure.
pub(crate) fn choose(all: &'static [Candidate], wanted: Wanted<'_>) -> Result<Vec<Group>, Failure> {
    let families = wanted.family.map(families).transpose()?;
    let in_family = |candidate: &Candidate| families.as_ref().is_none_or(|chosen| chosen.contains(&candidate.family));
    let mut locks = ours(all, wanted.lock, families.is_some())?;
    locks.retain(|lock| in_family(lock.candidate));
    let locks = with_policies(all, locks, wanted.policy)?;
    let named = !matches!(wanted.peer.trim(), "all" | "none");
    let peers = match wanted.peer.trim() {
        "none" => Vec::new(),
        "all" => {
            let family_chosen = |candidate: &&Candidate| match &families {
                Some(chosen) => chosen.contains(&candidate.family),
                None if locks.is_empty() => true,
                None => locks.iter().any(|lock| lock.family == candidate.family),
            };
            all.iter().filter(|candidate| candidate.origin == Origin::Peer).filter(family_chosen).collect()
        }
        list => peers(all, list)?,
    };
    if locks.is_empty() && peers.is_empty() {
        return Err(Failure::usage(
            "nothing to measure: --lock, --peer and --family leave no lock; 'lockyard list' shows the names",
        ));
    }
    let mut chosen: Vec<&'static Candidate> = locks.into_iter().chain(peers).collect();
    if named {
        let mut names: Vec<&str> = Vec::new();
        for candidate in &chosen {
            if !names.contains(&candidate.family.name()) {
                names.push(candidate.family.name());
            }
        }
        return Ok(vec![Group { name: names.join(" + "), candidates: chosen }]);
    }
    chosen.sort_by_key(|candidate| candidate.family);
    Ok(chosen
        .chunk_by(|a, b| a.family == b.family)
        .map(|group| Group { name: group[0].family.name().to_owned(), candidates: group.to_vec() })
        .collect())
}

/// The names of all candidates of an origin, each once.
pub(crate) fn names(all: &'static [Candidate], origin: Origin) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = Vec::new();
    for candidate in all.iter().filter(|candidate| candidate.origin == origin) {
        if !names.contains(&candidate.name) {
            names.push(candidate.name);
        }
    }
    names
}

/// Whether `candidate` has the default policy of its lock: the one that is listed first.
pub(crate) fn is_default(all: &'static [Candidate], candidate: &Candidate) -> bool {
    all.iter().find(|other| other.name == candidate.name).is_some_and(|first| first.policy == candidate.policy)
}

/// One of Lockyard's locks, and whether its policy was named with it (`rwsem:v5.10`).
#[derive(Clone, Copy)]
struct Ours {
    candidate: &'static Candidate,
    exact: bool,
}

/// `--lock`, before `--policy`: all policies of the named locks, or exactly one for `lock:policy`.
fn ours(all: &'static [Candidate], text: Option<&str>, by_family: bool) -> Result<Vec<Ours>, Failure> {
    let lockyard = || all.iter().filter(|candidate| candidate.origin == Origin::Lockyard);
    let any = |candidate| Ours { candidate, exact: false };
    let text = match text.map(str::trim) {
        None if by_family => return Ok(lockyard().filter(|candidate| !candidate.by_name).map(any).collect()),
        None => "mutex",
        Some(text) => text,
    };
    match text {
        "all" => return Ok(lockyard().map(any).collect()),
        "none" => return Ok(Vec::new()),
        _ => {}
    }
    let valid = names(all, Origin::Lockyard);
    let mut chosen: Vec<Ours> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (name, policy) = part.split_once(':').map_or((part, None), |(name, policy)| (name, Some(policy)));
        if names(all, Origin::Peer).contains(&name) {
            let message = format!("--lock: '{name}' is a peer, not one of Lockyard's locks; use --peer {name}");
            return Err(Failure::usage(message));
        }
        if suggest::lock(name, &valid).is_none()
            && let Some(peer) = peer_of(all, name)
        {
            let message = format!("--lock: '{name}' is another library, whose locks are peers: --peer {peer}");
            return Err(Failure::usage(message));
        }
        let name = suggest::known("lock", "--lock", name, &valid)?;
        let of_name = || lockyard().filter(|candidate| candidate.name == name);
        if let Some(policy) = policy {
            let policies: Vec<&str> = of_name().filter_map(|candidate| candidate.policy).collect();
            suggest::known("policy", "--lock", policy, &policies)?;
        }
        let wanted = |candidate: &&Candidate| policy.is_none() || candidate.policy == policy;
        for candidate in of_name().filter(wanted) {
            match chosen.iter_mut().find(|old| std::ptr::eq(old.candidate, candidate)) {
                Some(old) => old.exact |= policy.is_some(),
                None => chosen.push(Ours { candidate, exact: policy.is_some() }),
            }
        }
    }
    Ok(chosen)
}

/// The first peer of the library `name`: of parking_lot it is `parking_lot-mutex`.
fn peer_of(all: &'static [Candidate], name: &str) -> Option<&'static str> {
    let library = |peer: &&str| peer.split('-').next().is_some_and(|library| library.eq_ignore_ascii_case(name));
    names(all, Origin::Peer).into_iter().find(library)
}

/// Keeps the policies asked for; a lock that has none of them keeps its default.
fn with_policies(
    all: &'static [Candidate],
    locks: Vec<Ours>,
    text: Option<&str>,
) -> Result<Vec<&'static Candidate>, Failure> {
    let text = text.map(str::trim);
    let mut wanted = Vec::new();
    if let Some(text) = text.filter(|text| *text != "all") {
        let valid: Vec<&str> = locks.iter().filter_map(|lock| lock.candidate.policy).collect();
        for name in text.split(',').map(str::trim) {
            if valid.is_empty() {
                let message = format!("--policy: none of the chosen locks has policies, '{name}' was given");
                return Err(Failure::usage(message));
            }
            wanted.push(suggest::known("policy", "--policy", name, &valid)?);
        }
    }
    let named = |lock: &Candidate| lock.policy.is_some_and(|policy| wanted.contains(&policy));
    let any_named = |lock: &Candidate| locks.iter().any(|one| one.candidate.name == lock.name && named(one.candidate));
    let keep = |lock: &Ours| {
        let Ours { candidate, exact } = *lock;
        match text {
            _ if exact => true,
            // Known defects are measured only when they are named.
            Some("all") => candidate.caution.is_none(),
            _ => named(candidate) || !any_named(candidate) && is_default(all, candidate),
        }
    };
    Ok(locks.iter().filter(|lock| keep(lock)).map(|lock| lock.candidate).collect())
}

fn peers(all: &'static [Candidate], text: &str) -> Result<Vec<&'static Candidate>, Failure> {
    let valid = names(all, Origin::Peer);
    let mut chosen: Vec<&'static Candidate> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let name = suggest::known("peer", "--peer", part, &valid)?;
        chosen.extend(all.iter().filter(|peer| peer.name == name && peer.origin == Origin::Peer));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use lockyard_work::{Error, Label, Record, Spec};

    use super::*;

    fn refuse(_: &Label, _: &Spec) -> Result<Record, Error> {
        Err(Error::Spec("a test candidate".to_owned()))
    }

    const fn candidate(name: &'static str, policy: Option<&'static str>, family: Family, origin: Origin) -> Candidate {
        Candidate {
            name,
            policy,
            family,
            origin,
            shared: matches!(family, Family::Rw),
            caution: None,
            by_name: false,
            sleeps: true,
            about: "",
            run: refuse,
        }
    }

    static ALL: [Candidate; 10] = [
        candidate("qspinlock", None, Family::Spin, Origin::Lockyard),
        Candidate { by_name: true, ..candidate("baseline", None, Family::Spin, Origin::Lockyard) },
        candidate("mutex", None, Family::Mutex, Origin::Lockyard),
        candidate("rwsem", Some("today"), Family::Rw, Origin::Lockyard),
        candidate("rwsem", Some("v5.10"), Family::Rw, Origin::Lockyard),
        candidate("rwsem", Some("no-rspin"), Family::Rw, Origin::Lockyard),
        Candidate { caution: Some("hangs"), ..candidate("rwsem", Some("broken"), Family::Rw, Origin::Lockyard) },
        candidate("std-mutex", None, Family::Mutex, Origin::Peer),
        candidate("std-rwlock", None, Family::Rw, Origin::Peer),
        candidate("pthread-spin", None, Family::Spin, Origin::Peer),
    ];

    fn chosen(lock: Option<&str>, peer: &str, policy: Option<&str>, family: Option<&str>) -> Vec<String> {
        let groups = choose(&ALL, Wanted { lock, peer, policy, family }).unwrap();
        let labels = |group: &Group| group.candidates.iter().map(|c| c.label()).collect::<Vec<_>>().join(" ");
        groups.iter().map(|group| format!("{}: {}", group.name, labels(group))).collect()
    }

    fn refused(lock: Option<&str>, peer: &str, policy: Option<&str>, family: Option<&str>) -> String {
        choose(&ALL, Wanted { lock, peer, policy, family }).unwrap_err().to_string()
    }

    #[test]
    fn defaults_and_families() {
        assert_eq!(chosen(None, "all", None, None), ["mutex: mutex std-mutex"]);
        assert_eq!(chosen(None, "all", None, Some("rw")), ["rw: rwsem:today std-rwlock"]);
        assert_eq!(chosen(None, "none", None, Some("rw,spin")), ["spin: qspinlock", "rw: rwsem:today"]);
        assert_eq!(chosen(Some("all"), "all", None, None).len(), 3);
        assert_eq!(chosen(Some("none"), "all", None, Some("mutex")), ["mutex: std-mutex"]);
        assert_eq!(defaults(&ALL, &[Family::Rw])[0].candidates.len(), 2);
        assert_eq!(defaults(&ALL, &[Family::Spin])[0].candidates.len(), 2);
        assert_eq!(chosen(Some("baseline"), "none", None, None), ["spin: baseline"]);
    }

    #[test]
    fn named_peers_make_one_group() {
        assert_eq!(
            chosen(Some("qspinlock"), "std-mutex,pthread-spin", None, None),
            ["spin + mutex: qspinlock std-mutex pthread-spin"]
        );
    }

    #[test]
    fn policies() {
        assert_eq!(chosen(Some("rwsem"), "none", Some("all"), None), ["rw: rwsem:today rwsem:v5.10 rwsem:no-rspin"]);
        assert_eq!(chosen(Some("rwsem"), "none", Some("v5.10,today"), None), ["rw: rwsem:today rwsem:v5.10"]);
        assert_eq!(chosen(Some("rwsem:v5.10"), "none", None, None), ["rw: rwsem:v5.10"]);
        let two = Some("rwsem:v5.10,rwsem:no-rspin,mutex");
        assert_eq!(chosen(two, "none", None, None), ["mutex: mutex", "rw: rwsem:v5.10 rwsem:no-rspin"]);
        let beside = Some("rwsem,rwsem:v5.10");
        assert_eq!(chosen(beside, "none", None, None), ["rw: rwsem:today rwsem:v5.10"]);
        assert_eq!(chosen(Some("rwsem:broken"), "none", None, None), ["rw: rwsem:broken"]);
        assert_eq!(chosen(Some("rwsem"), "none", Some("broken"), None), ["rw: rwsem:broken"]);
        assert_eq!(chosen(Some("mutex,rwsem"), "none", Some("v5.10"), None), ["mutex: mutex", "rw: rwsem:v5.10"]);
    }

    #[test]
    fn refusals_suggest() {
        assert!(refused(Some("mutx"), "all", None, None).contains("did you mean 'mutex'?"));
        assert!(refused(Some("std-mutex"), "all", None, None).contains("use --peer std-mutex"));
        assert!(refused(None, "std-mutx", None, None).contains("did you mean 'std-mutex'?"));
        assert!(refused(Some("rwsem"), "all", Some("v5.1"), None).contains("did you mean 'v5.10'?"));
        assert!(refused(Some("rwsem:todday"), "all", None, None).contains("did you mean 'today'?"));
        assert!(refused(Some("mutex"), "all", Some("today"), None).contains("none of the chosen locks has policies"));
        assert!(refused(None, "all", None, Some("mutexes")).contains("did you mean 'mutex'?"));
        assert!(refused(Some("none"), "none", None, None).contains("nothing to measure"));
        assert!(refused(Some("mutex"), "none", None, Some("rw")).contains("nothing to measure"));
    }
}
