//! LevelDB, RocksDB, MariaDB; and stress-ng, which stores nothing.

use std::process::Command;
use std::time::Duration;

use crate::programs::driver;
use crate::programs::work::{Load, Work, finish};
use crate::tools::{Outcome, capture};

fn store<'w>(work: &'w Work, source: &str, libraries: &[&str]) -> Outcome<Load<'w>> {
    let mut command = work.on_locks(driver(source, libraries)?);
    let (threads, seconds) = (work.scale.threads.to_string(), work.scale.seconds.to_string());
    command.arg(work.path("store")).args([threads, seconds]);
    Ok(command.into())
}

/// LevelDB: one mutex for the database, one per cache shard.
pub(crate) fn leveldb(work: &Work) -> Outcome<Load<'_>> {
    store(work, "leveldb.cc", &["-lleveldb"])
}

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";

/// LevelDB on jemalloc, which locks mutexes while it initialises itself, before our library does.
pub(crate) fn jemalloc_first(work: &Work) -> Outcome<Load<'_>> {
    jemalloc(work, |ours| format!("{JEMALLOC}:{ours}"))
}

/// The same after it.
pub(crate) fn jemalloc_last(work: &Work) -> Outcome<Load<'_>> {
    jemalloc(work, |ours| format!("{ours}:{JEMALLOC}"))
}

fn jemalloc(work: &Work, order: impl Fn(String) -> String) -> Outcome<Load<'_>> {
    let mut load = leveldb(work)?;
    load.command.env("LD_PRELOAD", work.library().map_or_else(|| JEMALLOC.to_owned(), order));
    Ok(load)
}

/// RocksDB with one cache shard: one mutex that every read takes.
pub(crate) fn rocksdb(work: &Work) -> Outcome<Load<'_>> {
    store(work, "rocksdb.cc", &["-lrocksdb"])
}

/// RocksDB's own benchmark, reading at random through one cache shard.
pub(crate) fn db_bench(work: &Work) -> Outcome<Load<'_>> {
    const KEYS: &str = "--num=100000";
    const PROGRAM: &str = "/usr/bin/db_bench";
    let store = format!("--db={}", work.text_path("store"));
    // Filled on glibc's locks, by one thread.
    capture(Command::new(PROGRAM).args(["--benchmarks=fillseq", "--disable_wal=1", KEYS, &store]))?;
    let mut command = work.on_locks(PROGRAM);
    command.args(["--benchmarks=readrandom", "--use_existing_db=1", KEYS, &store]);
    command.args(["--cache_type=lru_cache", "--cache_size=268435456", "--cache_numshardbits=0"]);
    command.args([format!("--threads={}", work.scale.threads), format!("--duration={}", work.scale.seconds)]);
    Ok(command.into())
}

/// What such a mutex is asked for, without the rest of RocksDB.
pub(crate) fn shard(work: &Work) -> Outcome<Load<'_>> {
    let mut command = work.on_locks(driver("shard.c", &[])?);
    command.args([work.scale.threads.to_string(), work.scale.seconds.to_string()]);
    Ok(command.into())
}

/// MariaDB under sysbench's mixed transactions; afterwards the server checks its tables, and starts
/// again from what it wrote.
pub(crate) fn mariadb(work: &Work) -> Outcome<Load<'_>> {
    let (data, socket) = (work.text_path("data"), work.text_path("socket"));
    let install = ["--no-defaults", "--user=root", "--auth-root-authentication-method=normal", "--skip-test-db"];
    capture(Command::new("mariadb-install-db").args(install).arg(format!("--datadir={data}")))?;
    let at = socket.clone();
    let start = move || {
        let mut command = work.on_locks("/usr/sbin/mariadbd");
        command.args(["--no-defaults", "--user=root", "--skip-networking", "--innodb-buffer-pool-size=64M"]);
        command.args(["--innodb-flush-log-at-trx-commit=2", &format!("--datadir={data}"), &format!("--socket={at}")]);
        command.arg(format!("--pid-file={}", work.text_path("pid")));
        let mut server = work.start(&mut command)?;
        server.wait(|| sql(&at, "SELECT 1").is_ok())?;
        Ok::<_, String>(server)
    };
    let server = start()?;
    sql(&socket, "CREATE DATABASE sbtest")?;
    let sysbench = |what: &str| {
        let mut command = Command::new("/usr/bin/sysbench");
        command.args([
            "oltp_read_write",
            "--db-driver=mysql",
            "--mysql-user=root",
            "--mysql-db=sbtest",
            "--tables=2",
            "--table-size=5000",
        ]);
        command.args([format!("--mysql-socket={socket}"), format!("--threads={}", work.scale.threads)]);
        command.args([format!("--time={}", work.scale.seconds), what.to_owned()]);
        command
    };
    let (text, status) = finish(&mut sysbench("prepare"), Duration::from_secs(120))?;
    if !status.success() {
        return Err(format!("sysbench prepare: {status}\n{}", text.trim_end()));
    }
    let run = sysbench("run");
    let counts = move |when: &str| -> Outcome<String> {
        let check = sql(&socket, "CHECK TABLE sbtest.sbtest1, sbtest.sbtest2")?;
        if check.matches("OK").count() != 2 {
            return Err(format!("{when}: {check}"));
        }
        // Each transaction deletes a row and inserts it again.
        let rows = sql(&socket, "SELECT (SELECT COUNT(*) FROM sbtest.sbtest1), (SELECT COUNT(*) FROM sbtest.sbtest2)")?;
        if rows.split_whitespace().collect::<Vec<_>>() != ["5000", "5000"] {
            return Err(format!("{when}: {} rows are left of 5000 and 5000", rows.trim()));
        }
        sql(&socket, "CHECKSUM TABLE sbtest.sbtest1, sbtest.sbtest2")
    };
    Ok(Load::on(server, run, move |server| {
        let before = counts("after the load")?;
        server.end("TERM")?;
        let server = start()?;
        if counts("after a restart")? != before {
            return Err("the tables are not the same after a restart".to_owned());
        }
        server.end("TERM")
    }))
}

fn sql(socket: &str, statement: &str) -> Outcome<String> {
    capture(Command::new("mariadb").args(["--no-defaults", "-uroot", "-N", "-S", socket, "-e", statement]))
}

/// stress-ng's stressors of mutexes, condition variables and POSIX semaphores, which verify what
/// they do.
pub(crate) fn stress_ng(work: &Work) -> Outcome<f64> {
    let seconds = work.scale.seconds.to_string();
    let mut command = work.on_locks("/usr/bin/stress-ng");
    command.args([
        "--verify",
        "--metrics-brief",
        "--timeout",
        &seconds,
        "--mutex",
        "1",
        "--sem",
        "1",
        "--pthread",
        "1",
    ]);
    command.current_dir(work.path("."));
    let (text, status) = finish(&mut command, Duration::from_secs(u64::from(work.scale.seconds) + 60))?;
    if !status.success() || text.contains("fail:") {
        return Err(format!("stress-ng: {status}\n{}", text.trim_end()));
    }
    // "metrc: [1] mutex  OPERATIONS  …": the sum of the stressors' operations.
    let of = |name: &str| {
        let line = text.lines().find(|line| {
            line.contains("[") && line.split_whitespace().any(|word| word == name) && !line.contains("dispatching")
        });
        let words = line.map(|line| line.split_whitespace().skip_while(|word| *word != name).nth(1));
        words
            .flatten()
            .and_then(|word| word.parse::<f64>().ok())
            .ok_or_else(|| format!("no count of {name} in\n{}", text.trim_end()))
    };
    Ok((of("mutex")? + of("sem")? + of("pthread")?) / f64::from(work.scale.seconds))
}
