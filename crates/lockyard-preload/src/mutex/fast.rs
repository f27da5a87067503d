//! What lock and unlock calls try first: a thread that has been here before, a mutex that nobody
//! holds or waits for. One locked instruction each way; none while the process has one thread and
//! the mutex is not told of. On x86-64, of the normal kind, no stack.

use core::sync::atomic::Ordering::*;

use lockyard::platform::thread::ThreadId;

use lockyard_segment::layout::ThreadPage;
use lockyard_segment::{Call, Caller};

use super::{ADAPTIVE, CLASS, ERRORCHECK, MutexObject, NORMAL, OWNER, RECURSIVE};
use crate::config::MutexKind;
use crate::thread;
use crate::watch::{self, Ask, Noted};

impl MutexObject {
    /// The fast path, of the normal kind: nobody holds the mutex or waits for it, and the thread
    /// has been here before.
    #[inline(always)]
    pub(super) fn lock_fast(&self) -> bool {
        let me = thread::block();
        let Some(name) = me.fast() else { return false };
        let taken = self.take_fast(name);
        if taken {
            self.owned(NORMAL, MutexKind::Mutex, me);
        }
        taken
    }

    #[inline(always)]
    fn take_fast(&self, name: ThreadId) -> bool {
        if thread::alone() {
            // SAFETY: asked just before.
            unsafe { self.raw.try_acquire_alone(name) }
        } else {
            self.raw.try_acquire_as(name)
        }
    }

    /// The fast path of unlocking, of the normal kind: nobody waits for the mutex.
    #[inline(always)]
    pub(super) fn unlock_fast(&self) -> bool {
        let Some(name) = thread::block().fast() else { return false };
        self.field(OWNER).store(0, Relaxed);
        self.give_fast(name)
    }

    #[inline(always)]
    fn give_fast(&self, name: ThreadId) -> bool {
        if thread::alone() {
            // SAFETY: asked just before.
            unsafe { self.raw.try_release_alone(name) }
        } else {
            self.raw.try_release_as(name)
        }
    }

    /// The fast path of a lock of the normal kind that is told of: it has a class, and a call from
    /// `caller` takes it. Nothing here is called, so it needs no stack: what is stored there would
    /// have to reach the cache before the locked instruction.
    #[inline(always)]
    pub(super) fn lock_told(&self, caller: Call) -> Option<Noted> {
        self.lock_told_of(0, NORMAL, caller, watch::plain)
    }

    /// The same, of any kind.
    #[inline(always)]
    pub(super) fn lock_any_told(&self, caller: Call) -> Option<Noted> {
        let (identity, kind) = (thread::block().known_identity()?, self.kind());
        if kind > ADAPTIVE { None } else { self.lock_told_of(identity, kind, caller, watch::plain) }
    }

    /// The same of one of the normal kind that is taken by code which passes it on, and which the
    /// code that holds it has called. Without a stack, too.
    #[inline(always)]
    pub(super) fn lock_passed_told(&self, caller: Call) -> Option<Noted> {
        // First of all: together with what comes next it would need more registers than there are.
        let place = caller.settled_place_nearby()?;
        self.lock_told_of(0, NORMAL, caller, |word, _| watch::wrapped_at(word, place))
    }

    /// The same of any kind, and of code that passes it on to code which passes it on.
    #[inline]
    pub(super) fn lock_wrapped_told(&self, caller: Call) -> Option<Noted> {
        let (identity, kind) = (thread::block().known_identity()?, self.kind());
        if kind > ADAPTIVE { None } else { self.lock_told_of(identity, kind, caller, watch::wrapped) }
    }

    #[inline(always)]
    fn lock_told_of(&self, identity: u32, kind: u32, caller: Call, ask: impl Ask) -> Option<Noted> {
        let me = thread::block();
        let (name, page) = (me.name()?, watch::known_page()?);
        let (class, place) = ask(self.field(CLASS).load(Relaxed), caller)?;
        // Others that wait are to be told. (A word without waiters: in a child of fork nothing has
        // to be settled.)
        if self.raw.may_be_contended() || !self.raw.try_acquire_as(name) {
            return None;
        }
        self.owned_by(identity, kind, MutexKind::Mutex, me);
        Some((page, Caller::new(class, place)))
    }

    /// The fast path of unlocking it, of the normal kind. The page in which that is to be noted.
    #[inline(always)]
    pub(super) fn unlock_told(&self) -> Option<&'static ThreadPage> {
        let (name, page) = (thread::block().name()?, watch::known_page()?);
        self.field(OWNER).store(0, Relaxed);
        self.raw.try_release_as(name).then_some(page)
    }

    /// The same, of the other three kinds.
    #[inline(always)]
    pub(super) fn unlock_known_told(&self) -> Option<&'static ThreadPage> {
        let (name, page) = (thread::block().name()?, watch::known_page()?);
        self.give_known(name).then_some(page)
    }

    /// The fast path of the other three kinds; those that know their holder: taken for the first
    /// time.
    #[inline(always)]
    pub(super) fn lock_known(&self) -> bool {
        let kind = self.kind();
        if kind == NORMAL || kind > ADAPTIVE {
            return false;
        }
        let me = thread::block();
        let taken = me.fast().is_some_and(|name| self.take_fast(name));
        if taken {
            self.owned(kind, MutexKind::Mutex, me);
        }
        taken
    }

    /// The same: given up for the last time, by its holder.
    #[inline(always)]
    pub(super) fn unlock_known(&self) -> bool {
        thread::block().fast().is_some_and(|name| self.give_known(name))
    }

    /// The thread called `name` gives it up for the last time.
    #[inline]
    fn give_known(&self, name: ThreadId) -> bool {
        let (kind, me) = (self.kind(), thread::block());
        if kind == ADAPTIVE {
            self.field(OWNER).store(0, Relaxed);
            return self.give_fast(name);
        }
        if kind != RECURSIVE && kind != ERRORCHECK || !self.held_by(me) {
            return false;
        }
        let count = self.count(false);
        if kind == RECURSIVE {
            if count.load(Relaxed) != 1 {
                return false;
            }
            count.store(0, Relaxed);
        }
        self.field(OWNER).store(0, Relaxed);
        self.holder.store(0, Relaxed);
        let given = self.give_fast(name);
        if !given {
            // Somebody waits: the slow path begins anew.
            self.owned(kind, MutexKind::Mutex, me);
        }
        given
    }
}
