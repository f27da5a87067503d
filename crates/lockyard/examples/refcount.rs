//! A table of shared objects, as a kernel's cache of directory entries is one. [`LockRef`] holds
//! the count of references and the lock in one word: a lookup takes a reference without the lock,
//! and the thread that gives up the last one marks the object dead under it.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread;

use lockyard::{LockRef, RwSem};

struct Entry {
    references: LockRef,
    name: u32,
}

#[derive(Default)]
struct Table {
    entries: RwSem<HashMap<u32, Arc<Entry>>>,
}

impl Table {
    /// The entry with this name, with a reference for the caller.
    fn get(&self, name: u32) -> Arc<Entry> {
        loop {
            // A dead entry is about to leave the table.
            if let Some(entry) = self.entries.read().get(&name)
                && entry.references.get_not_dead()
            {
                return entry.clone();
            }
            let mut entries = self.entries.write();
            let found = entries.entry(name).or_insert_with(|| Arc::new(Entry { references: LockRef::new(), name }));
            if found.references.get_not_dead() {
                return found.clone();
            }
            drop(entries);
            thread::yield_now();
        }
    }

    /// Gives a reference up; the last one takes the entry with it.
    fn put(&self, entry: &Entry) {
        // Not the last: only the count changes.
        let Some(last) = entry.references.put_or_lock() else { return };
        last.mark_dead();
        drop(last);
        self.entries.write().remove(&entry.name);
    }
}

pub(crate) fn main() {
    let table = Table::default();
    thread::scope(|scope| {
        for thread in 0..4 {
            let table = &table;
            scope.spawn(move || {
                for round in 0..2_000 {
                    let entry = table.get((thread + round) % 8);
                    assert_eq!(entry.name, (thread + round) % 8);
                    table.put(&entry);
                }
            });
        }
    });
    assert!(table.entries.read().is_empty());
    println!("8000 lookups, every entry is gone with its last reference");
}
