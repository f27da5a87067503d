//! What stands below the options in the help of each command: examples, and with `--help` the rest.

/// What stands below the short help: the first paragraph of `text`, and where there is more.
pub(crate) fn brief(text: &'static str) -> String {
    let (examples, more) = text.split_once("\n\n").unwrap_or((text, ""));
    let rest = if more.is_empty() { "" } else { "\n\nMore: --help, and docs/guide." };
    format!("{examples}{rest}")
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  lockyard                                   compare everything on this machine, about a minute
  lockyard --quick                           the same in about 15 seconds, coarser
  lockyard bench --lock mutex --threads 2,16,64
  lockyard bench --family rw --read-pct 50,95 --threads 16 --json > rw.jsonl
  lockyard sim --machine epyc9654_2s:nps4 --lock mutex --threads 2,96,384
  lockyard sweep plan.toml --shard 1/4 --resume
  lockyard stat ./server -p 8080              what do its locks cost?
  lockyard hq --threads 16
  lockyard torture --lock all --machine quad2008 --secs 2
  lockyard list peers

Exit codes: 0 done, 1 failed while running, 2 bad request (nothing measured, nothing written), \
130 interrupted (what was measured so far has been printed and written).";

pub(crate) const COMPARE_EXAMPLES: &str = "\
Examples:
  lockyard compare
  lockyard compare -- ./program --its-option            your program on glibc's locks and on others
  lockyard compare --lock hq --lock rwlock=qrw --rounds 20 -- ./program
  lockyard compare --load 'memtier -p 7000' --ready 'nc -z localhost 7000' --metric 'Totals +([0-9.]+)' -- memcached -p 7000
  lockyard compare --secs-total 20 --html compare.html
  lockyard compare --quick --sim
  lockyard compare --family rw,mutex --secs-total 120

Cells: one thread alone; 2 threads; 8 threads per CPU; these with a think time of one PAUSE, and of a section; for \
reader-writer locks also 50 % and 95 % reads, and the two starvation tests (overlapping readers against one writer, looping \
writers against one reader).

All locks of a family are measured in turn within each round, so a noisy moment of the machine hits all of \
them alike; the printed numbers are medians over the rounds.";

pub(crate) const BENCH_EXAMPLES: &str = "\
Examples:
  lockyard bench --lock mutex --peer all --threads 2,16,64 --cs 1,20,100
  lockyard bench --lock rwsem --policy today,v5.10,no-rspin --peer none --threads 2:16:2
  lockyard bench --lock qspinlock --peer pthread-spin,std-mutex --threads 16,64
  lockyard bench --family semaphore --threads 16 --secs 2 --rounds 7 --out semaphore.csv
  lockyard bench --family rw --workload starve-writers --json | jq '.lock, .wait_max'
  lockyard bench --lock mutex --threads 16 --cs 20,100 --think 0.25x,1x,4x --think-shape exponential
  lockyard bench --grid --quick                       score of every family, under three minutes
  lockyard bench --grid --lock rwsem --out grid.jsonl

Lists take commas and inclusive ranges first:last:step. Each combination of threads, section, think time and \
read share is one cell. Within a cell the locks run one after another, round by round, so their ratios do not \
depend on how the machine's speed drifts. Critical sections and think times are counted in PAUSE instructions.

Without named peers each family is compared in itself; named peers are compared with all chosen locks, \
whatever their family.

The grid: threads 1, 2, 4, 16, 64; sections 0, 1, 20, 100, 1000 PAUSEs; think times of 1 PAUSE, 1/4, 1 and 4 sections, and drawn \
with a mean of a section; sections that touch 0, 1, 8 lines; 50, 95, 99.9 % reads. By default, in under 15 minutes: 2, 16 and 64 threads, sections \
1, 20, 100 with all think times and 95 % reads; the other sections, reads, 4 threads and lines where think = section. \
Where threads outnumber CPUs, peers that never sleep are left out, and spinlocks are laid beside the sleeping mutexes. Ratios of the score are to the \
fastest peer of the cell that left no thread without a turn.";

pub(crate) const SIM_EXAMPLES: &str = "\
Examples:
  lockyard sim --machine epyc9654_2s:nps4 --lock qspinlock --threads 2,24,96,384
  lockyard sim --machine ivb_ex_8s --lock rwsem --policy reader-spin-on-writer,timed-writer-spin \\
      --workload rwsem-micro --threads 2,8,32,64,128,240
  lockyard sim --machine this --lock mutex --threads 2 --cs 20 --json

The very lock source that ships runs inside a deterministic model of caches, interconnect, scheduler and futexes: same \
machine, workload and seed give the same result to the last digit. A prediction is as good as the machine's numbers, \
each of which has a source, a confidence and a range in its file. Threads are simulated threads, times simulated times.";

pub(crate) const TRACE_EXAMPLES: &str = "\
Examples:
  lockyard trace --machine clx_2s_48c --lock mutex --threads 24 --duration 1ms --out trace.json
  lockyard trace --machine epyc9654_2s:nps4 --lock hq-spinlock --threads 96 --out hq.json
  lockyard trace --machine quad2008 --lock rwsem --read-pct 90 --threads 8 --out rwsem.json

Open the file at https://ui.perfetto.dev or chrome://tracing: one track per CPU and per thread (running, spinning, ready, sleeping), \
one per thread for the sections, and an arrow from each section to the next one of the same lock.";

pub(crate) const SWEEP_EXAMPLES: &str = "\
Examples:
  printf 'machines = \"skx_1s\"\\nthreads = [2, 8]\\nseeds = \"1:5\"\\n' > plan.toml
  lockyard sweep plan.toml --shard 1/2
  lockyard sweep plan.toml --shard 2/2 --jobs 1 --resume      goes on where it was
  lockyard sweep status plan.toml
  lockyard sweep merge plan.toml --out result.jsonl

A plan has lists, whose product is the sweep: machines, locks, policies, families, workloads, threads, readers, writers, cs, lines, think, \
read_pct, sleep_us, placements, seeds; a value each: think_shape, mix, jobs, in_kernel, duration; and settings, tables of numbers of the machine \
to change (those of --set): settings = [{}, { model.occupancy_ratio = 0.5 }]. Values are those of 'lockyard sim --help'. Only machines must be there.

Each result is a line of JSON, that of 'lockyard sim --json' with the number of its cell and a key that names all that decides it. The lines depend \
on plan and version only, so merged files are equal whatever was killed, and a cell that two hosts did is a check of both. \
Recipes for Slurm, GNU parallel, Kubernetes, HyperQueue and Dask: docs/guide/src/sweeps.md.";

pub(crate) const STATUS_EXAMPLES: &str = "\
Examples:
  lockyard sweep status plan.toml
  lockyard sweep status plan.toml plan.sweep/*.jsonl
  watch -n 60 lockyard sweep status plan.toml

A shard that another process does now is read without disturbing it. See also: lockyard sweep merge --help";

pub(crate) const MERGE_EXAMPLES: &str = "\
Examples:
  lockyard sweep merge plan.toml --out result.jsonl
  lockyard sweep merge plan.toml | jq -r '[.cell, .lock, .kops_per_s] | @csv'
  lockyard sweep merge plan.toml plan.sweep > result.jsonl

Folders of several hosts are merged into one. A cell may be in several files, if its lines are equal to the byte; else nothing is written. \
Exit codes: 0 all cells are there, 1 some are missing or failed (the others are written), or two lines differ, 2 a file is of another plan or version. \
See also: lockyard sweep --help";

pub(crate) const PREDICT_EXAMPLES: &str = "\
Examples:
  lockyard predict app.toml --machine epyc9654_2s:nps4
  lockyard predict app.toml --machine epyc9654_2s:nps4 --threads 1,8,24,96 --lock mutex,hq-spinlock
  lockyard predict app.toml --machine clx_2s_48c --what-if shards=16:CACHE --what-if hold/4:CACHE --json
  lockyard predict app.lyr --machine this --threads 1,2,4 --html app.html

app.toml says what the program does with its locks; ten lines are enough:
  [lock.CACHE]
  kind = \"mutex\"                 # mutex, rwlock, spin
  objects = 1                    # locks of this class
  [[role]]
  cpu = \"2us\"                    # CPU time of an operation outside of its locks
  takes = [{ lock = \"CACHE\", hold = \"60ns\", count = 5 }]

What-ifs: shards=N:CLASS, hold/N:CLASS, rwlock:CLASS, rwlock=READS:CLASS (percent), remove:CLASS. Progress is the number of CPUs that \
do what the program is for; its band is over placements of threads, seeds, and the fewest and most lines that sections touch.";

pub(crate) const RECORD_EXAMPLES: &str = "\
Examples:
  lockyard record ./server -p 8080                    until it ends, or Ctrl-C
  lockyard record --time 10s --out app.lyr memcached -t 4
  lockyard record --pid 1234 --windows

Read it with lockyard report, model or predict. Recorded are mutexes, rwlocks, spinlocks, condition variables and semaphores of pthread, and the locks and condition variables of programs \
linked with liblockyard. A running process must have been started \
with lockyard run, stat or record. The program never waits for the file: where its events come too fast, windows end early, which is said. \
The exit code is the program's; if that goes on after a signal to this command, 130, or 143 after SIGTERM. \
A recorded thread asks the system for its CPU time: a sandbox must allow clock_gettime and getrusage.";

pub(crate) const REPORT_EXAMPLES: &str = "\
Examples:
  lockyard report app.lyr
  lockyard report app.lyr --machine this,epyc9654_2s:nps4
  lockyard report app.lyr --html app.html
  lockyard report app.lyr --json | jq .critical_path
  lockyard record --time 10s --out app.lyr ./server && lockyard report app.lyr";

pub(crate) const MODEL_EXAMPLES: &str = "\
Examples:
  lockyard model app.lyr
  lockyard model app.lyr --out app.toml
  lockyard model app.lyr --op CACHE=5 > app.toml";

pub(crate) const SCRIPT_EXAMPLES: &str = "\
Examples:
  lockyard script app.lyr | head
  lockyard script app.lyr > app.txt
  lockyard script --trace app.lyr > app.json          waits and holds, for ui.perfetto.dev";

pub(crate) const IMPORT_EXAMPLES: &str = "\
Examples:
  lockyard import app.txt --out app.lyr
  lockyard import app.txt --out app.lyr && lockyard report app.lyr
  lockyard script app.lyr > app.txt && lockyard import app.txt --out same.lyr

The lines, times in nanoseconds:
  lockyard recording 1
  class mutex CACHE              classes are numbered from 0; mutex, rwlock or spin
  lock 0                         a lock of class 0; locks are numbered from 0
  class condition FILLED         or semaphore
  lock 1                         a condition variable or semaphore is numbered as locks are
  window 7 1000                  thread 7 from time 1000 on; its events follow, none left out
  1500 7 request 0 write         time, thread, event, lock, mode: read or write
  1520 7 grant 0                 only if it had to wait
  1560 7 release 0
  1570 7 failed 0 write          it did not get the lock, and did not wait
  1580 7 request 0 write
  1690 7 gave-up 0               its time was up
  1700 7 signal 1                it wakes one that waits, or adds a unit; or: broadcast
  1800 7 wait 1                  it waits at a condition variable, or has a unit of a semaphore
  1900 7 woken 1                 only if it had to wait; or: gave-up
  9000 7 off 7000                it was asleep for 7000 ns since the event before
  9900 7 preempted 500           it was ready, and had no CPU, for 500 ns since the event before
  window 8 1000 12000            thread 8, up to time 12000: what it has it holds until then
  1300 8 request 0 write
  12000 8 pending 0              it waits until then; or: pending-firm, if without a deadline

A program that has no recorder of ours is recorded by whatever prints these lines.";

pub(crate) const RUN_EXAMPLES: &str = "\
Examples:
  lockyard run memcached -t 4
  lockyard run --lock hq mariadbd
  lockyard run --lock mutex=mutex,rwlock=qrw ./server & lockyard stat --pid $! --interval 1s

What follows the program is the program's. It keeps its process id, its signals and its exit code: this command becomes it. The library that puts it on \
Lockyard's locks is LOCKYARD_PRELOAD, else liblockyard_preload.so beside this command or in ../lib (cargo build --release -p lockyard-preload). Programs \
that are setuid, linked statically or with musl, or for another processor would run without it, and are refused.";

pub(crate) const STAT_EXAMPLES: &str = "\
Examples:
  lockyard stat ./server -p 8080                      starts it; the report follows its end, on stderr
  lockyard stat --wide --events memcached -t 4
  lockyard stat --interval 1s ./server                a line for each class and second, then the report
  lockyard stat --pid 1234                            since it began, or since the last --reset
  lockyard stat --pid 1234 --interval 1s              every second, until it ends or Ctrl-C
  lockyard stat --pid 1234 --openmetrics
  lockyard stat --folded --out waits.folded ./server  for flame graphs (inferno-flamegraph)

What follows the program is the program's. The first line is the answer: what locks cost, which, who holds them at which line, and what would help. \
A running process must have been started with lockyard run, lockyard stat, or, if it is linked with liblockyard or lockyard-stat, with LOCKYARD_STAT=1; \
it is neither stopped nor slowed down by looking. Exit code 1: no lock of the process was seen, which the line explains. Programs compiled with -g have lines.

Hierarchical spinlocks and their tunables: lockyard hq.";

pub(crate) const TOP_EXAMPLES: &str = "\
Examples:
  lockyard top                                        of the only process that tells of its locks
  lockyard top --pid 1234
  lockyard top --pid 1234 --interval 250ms

Keys: s sorts by another column; the arrows and Enter open a class, with the threads that wait, \
the lines that make others wait, and how long waits and holds are; r counts anew, on this screen \
alone; q ends. The process must have been started with lockyard run or lockyard stat, or, if it is \
linked with liblockyard or lockyard-stat, with LOCKYARD_STAT=1; it is neither stopped nor slowed down. Without a \
terminal: lockyard stat --interval.";

pub(crate) const HQ_EXAMPLES: &str = "\
Examples:
  lockyard hq
  lockyard hq --workload kv-model --threads 64 --secs 5
  LOCKYARD_HQ_LANES=2 lockyard hq --json

A short run of a hierarchical spinlock, which queues its waiters by NUMA node while it is contended from several. Its lanes \
are in a pool of records that all locks of a process share. The run has 16 threads without --threads. The tunables come from the environment \
(LOCKYARD_HQ_...) and hold for every command, on simulated machines too; their names and ranges are in the first table.";

pub(crate) const TORTURE_EXAMPLES: &str = "\
Examples:
  lockyard torture --lock all --secs 2
  lockyard torture --lock rwsem --secs 60 --threads 2,8,64
  lockyard torture --lock mutex --machine skx_2s_40c --secs 30
  lockyard torture --lock qspinlock --machine quad2008 --schedules 100000 --fault preempt,late-wake,pct
  lockyard torture --lock all --machine quad2008 --small --schedules 100000
  lockyard torture --lock ttas --machine quad2008 --weaken spin/ttas.rs:73=Relaxed      (must fail)
  lockyard torture --lock broken-wakeups --machine quad2008 --secs 5      (must fail)

Without --machine the threads are real: 1, 4 and 32 to a CPU in turn, in rounds of 0.4 s with fresh locks, under a watchdog. With --machine each \
schedule is a simulated run named by its seed, with the machine's faults and the order of threads drawn from it; a failure is made smaller, told with the last \
50 events and calls of each thread, and replayed to the instruction by the command that is printed.

Faults: preempt, spurious-wake, late-wake, lost-cpu, migrate, clock-jump, grant-at-deadline, wake-order, wrong-node, no-record, stop-in-handler, fork, \
pct, thread-exit, cancel-at-grant; real threads have migrate, stop-in-handler, fork, thread-exit and cancel-at-grant. Locks called broken-... are broken on purpose. Some are tried first in every run.

Exit codes: 0 passed, 1 a lock failed, 2 bad request, 3 void (a detector missed a lock that is broken on purpose), 130 interrupted.";

pub(crate) const REPRODUCE_EXAMPLES: &str = "\
Examples:
  lockyard reproduce --all                   all published tables, a few minutes
  lockyard reproduce rwsem_07 semaphore_01
  lockyard reproduce --all --json > score.json
  lockyard reproduce rwsem_01 --html rwsem_01.html

Every cell runs on each placement with several seeds; the middle is the prediction. The band also covers both ends of \
the ranges of uncertain machine numbers. The result depends on source, machine files and seeds only, not on this \
machine or on --workers.";

pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  lockyard list
  lockyard list events handoff
  lockyard list this > here.toml                      measures this machine; its file";
