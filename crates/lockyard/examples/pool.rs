//! A pool of workers: tasks in a queue behind a [`Mutex`], and a [`Condvar`] on which idle workers
//! sleep.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use lockyard::{Condvar, Mutex};

type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    tasks: VecDeque<Task>,
    closed: bool,
}

struct Pool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

impl Pool {
    fn new(workers: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let work = |shared: Arc<Shared>| {
            loop {
                let mut queue = shared.queue.lock();
                shared.changed.wait_while(&mut queue, |queue| queue.tasks.is_empty() && !queue.closed);
                let Some(task) = queue.tasks.pop_front() else { return };
                drop(queue);
                task();
            }
        };
        let workers = (0..workers).map(|_| {
            thread::spawn({
                let shared = shared.clone();
                move || work(shared)
            })
        });
        Self { workers: workers.collect(), shared }
    }

    fn submit(&self, task: impl FnOnce() + Send + 'static) {
        self.shared.queue.lock().tasks.push_back(Box::new(task));
        self.shared.changed.notify_one();
    }

    /// Runs what is queued, and ends.
    fn finish(self) {
        self.shared.queue.lock().closed = true;
        self.shared.changed.notify_all();
        self.workers.into_iter().for_each(|worker| worker.join().expect("no task panics"));
    }
}

pub(crate) fn main() {
    let pool = Pool::new(4);
    let sum = Arc::new(Mutex::new(0));
    for number in 1..=1_000 {
        let sum = sum.clone();
        pool.submit(move || *sum.lock() += number);
    }
    pool.finish();
    assert_eq!(*sum.lock(), 500_500);
    println!("1000 tasks, sum {}", sum.lock());
}
