//! Exhaustive single preemption of every lock, and of the rwsem policies whose code differs most:
//! see `lockyard_check::scripted::sweeps`.

use lockyard_check::catalog::{locks, types};
use lockyard_check::preempted;
use lockyard_check::scripted::Scripted;

macro_rules! swept {
    (() $lock:ident lock $promises:tt) => {
        preempted!($lock: types::$lock<Scripted>, [exclusive]);
    };
    (() $lock:ident timed $promises:tt) => {
        preempted!($lock: types::$lock<Scripted>, [exclusive, timed]);
    };
    (() $lock:ident shared_timed $promises:tt) => {
        preempted!($lock: types::$lock<Scripted>, [exclusive, timed, shared]);
    };
    (() $lock:ident $count:ident $promises:tt) => {
        preempted!($lock: types::$lock<Scripted>, [counting]);
    };
}

locks!(swept => swept ());
