//! Threads that wait for each other: what some signal, and others wait for.

/// The most units that a queue has at the beginning.
pub const MOST_START: u32 = 1 << 20;

/// Units that threads put in and get out: a semaphore, or what a condition variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Units at the beginning.
    pub start: u32,
    /// Whether threads wait for it at a condition variable.
    pub condition: bool,
}

/// Units that an operation waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Get {
    /// The number of the queue in [`Model::queues`](super::Model::queues).
    pub queue: usize,
    /// Units in an operation.
    pub count: f64,
    /// How long a wait takes, ns, if all threads would wait: nobody is left to signal.
    pub lasts: u64,
}

/// Units that an operation signals.
#[derive(Debug, Clone, PartialEq)]
pub struct Put {
    /// The number of the queue in [`Model::queues`](super::Model::queues).
    pub queue: usize,
    /// Units in an operation; with `all`, how often it happens.
    pub count: f64,
    /// As many units as threads wait at that moment.
    pub all: bool,
}
