//! For how many CPUs the control groups of this process grant time.
//!
//! | hierarchy | limit of a group |
//! |---|---|
//! | version 2 | `cpu.max`: time and period, or `max` |
//! | version 1, `cpu` | `cpu.cfs_quota_us`, or -1; `cpu.cfs_period_us` |
//!
//! The groups above the process's own limit it as well. In a container the names may be those of
//! the host, and only the root of the hierarchy can be read: it is the container's own group.
//!
//! Nothing is allocated: this is read when the program starts.

use core::ffi::CStr;

use super::file;

/// Reads what a file begins with, as far as there is room for it.
type Read = for<'t> fn(&CStr, &'t mut [u8]) -> Option<&'t [u8]>;

/// The limit, rounded up to whole CPUs. `None`: there is none, or it cannot be read.
pub(super) fn cpus() -> Option<u32> {
    let mut groups = [0u8; 4096];
    least(file::read(c"/proc/self/cgroup", &mut groups)?, file::read)
}

/// The least limit of the `groups`, lines of `/proc/self/cgroup`: `number:controllers:/group`.
fn least(groups: &[u8], read: Read) -> Option<u32> {
    let mut least = None;
    for line in groups.split(|&byte| byte == b'\n') {
        let mut parts = line.splitn(3, |&byte| byte == b':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let limit = match controllers {
            b"" => newer,
            names if names.split(|&byte| byte == b',').any(|name| name == b"cpu") => older,
            _ => continue,
        };
        // Outside of what this process can see, and so are its limits.
        if group.starts_with(b"/..") {
            continue;
        }
        let mut above = Some(group.strip_suffix(b"/").unwrap_or(group));
        while let Some(group) = above {
            let found = limit(group, read);
            least = least.into_iter().chain(found).min();
            above = group.iter().rposition(|&byte| byte == b'/').and_then(|at| group.get(..at));
        }
    }
    least
}

fn newer(group: &[u8], read: Read) -> Option<u32> {
    let mut text = [0u8; 64];
    let line = read_in("/sys/fs/cgroup", group, "/cpu.max", &mut text, read)?;
    let mut words = line.split(u8::is_ascii_whitespace).map(number);
    rounded(words.next()??, words.next()??)
}

fn older(group: &[u8], read: Read) -> Option<u32> {
    let mut text = [0u8; 64];
    let mut field = |name| number(read_in("/sys/fs/cgroup/cpu", group, name, &mut text, read)?);
    rounded(field("/cpu.cfs_quota_us")?, field("/cpu.cfs_period_us")?)
}

fn rounded(time: u64, period: u64) -> Option<u32> {
    (period != 0).then(|| time.div_ceil(period).clamp(1, u32::MAX.into()) as u32)
}

/// `None` for `max` and for -1.
fn number(digits: &[u8]) -> Option<u64> {
    core::str::from_utf8(digits.trim_ascii()).ok()?.parse().ok()
}

/// Reads the file `name` of a group. A longer name than there is room for is not there.
fn read_in<'t>(root: &str, group: &[u8], name: &str, text: &'t mut [u8], read: Read) -> Option<&'t [u8]> {
    let mut path = [0u8; 1024];
    let mut rest = &mut path[..];
    for part in [root.as_bytes(), group, name.as_bytes(), b"\0"] {
        rest.split_off_mut(..part.len())?.copy_from_slice(part);
    }
    read(CStr::from_bytes_until_nul(&path).ok()?, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written<'t>(path: &CStr, text: &'t mut [u8]) -> Option<&'t [u8]> {
        let found: &[u8] = match path.to_bytes() {
            b"/sys/fs/cgroup/a/b/cpu.max" => b"max 100000\n",
            b"/sys/fs/cgroup/a/cpu.max" => b"250000 100000\n",
            b"/sys/fs/cgroup/c/cpu.max" => b"1000 100000\n",
            b"/sys/fs/cgroup/broken/cpu.max" => b"7 0\n",
            b"/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us" => b"-1\n",
            b"/sys/fs/cgroup/cpu/cpu.cfs_quota_us" => b"400000\n",
            b"/sys/fs/cgroup/cpu/job/cpu.cfs_period_us" | b"/sys/fs/cgroup/cpu/cpu.cfs_period_us" => b"100000\n",
            _ => return None,
        };
        text.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        text.get(..found.len())
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let cpus = |groups: &str| least(groups.as_bytes(), written);
        assert_eq!(cpus("0::/a/b\n"), Some(3));
        assert_eq!(cpus("0::/c\n"), Some(1));
        assert_eq!(cpus("4:memory:/a\n2:cpu,cpuacct:/job\n0::/\n"), Some(4));
        assert_eq!(cpus("2:cpu:/host/name\n0::/a\n"), Some(3));
        // A group with a limit in its name only, none, and what is not understood.
        assert_eq!(cpus("3:cpuset:/\n0::/\n"), None);
        assert_eq!(cpus("2:cpu:/../job\n"), None);
        assert_eq!(cpus("0::/broken\n:\n::\n0\n\n"), None);
        assert_eq!(cpus(&std::format!("0::/{}\n", "x".repeat(2000))), None);
    }

    #[test]
    fn this_process_is_looked_at() {
        // Whatever its groups are: at least one CPU, if there is a limit.
        assert!(cpus().is_none_or(|cpus| cpus >= 1));
    }
}
