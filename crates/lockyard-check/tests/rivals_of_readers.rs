//! As `rivals.rs`: the reader-writer locks of the preload library. (Each program has records for
//! sixteen thousand actors.)

use lockyard::cancel::Until;
use lockyard::qrwlock::RawQRwLock;
use lockyard::rwsem::RawRwSem;
use lockyard_check::embedded::Detached;
use lockyard_check::rivalled;
use lockyard_check::scripted::Scripted;
use lockyard_check::scripted::rivals::a_reader_that_waits_is_not_counted;
use lockyard_check::stage::Stage;

rivalled!(rwsem_detached: Detached<RawRwSem<Scripted>>, [lock, timed]);
rivalled!(qrwlock: RawQRwLock<Scripted>, [lock, shared, timed]);

/// The preload library's ways of reading: a child of a fork has no reader of the parent that was
/// not in yet.
macro_rules! reads {
    ($($name:ident: $lock:ident, |$it:ident| $take:expr;)*) => {$(
        #[test]
        fn $name() {
            fn sweep() {
                a_reader_that_waits_is_not_counted::<$lock<Scripted>>(|$it| {
                    if $take {
                        // SAFETY: taken just now.
                        unsafe { $it.read_release() };
                    }
                });
            }
            Scripted::perform(concat!(module_path!(), "::", stringify!($name)), sweep);
        }
    )*};
}

reads! {
    an_rwsems_queued_reader_is_not_counted: RawRwSem, |lock| lock.read_acquire_queued(Until::FOREVER).is_ok();
    an_rwsems_reader_beside_is_not_counted: RawRwSem, |lock| lock.read_acquire_beside(Until::FOREVER, || true).is_ok();
    an_rwsems_try_is_not_counted: RawRwSem, |lock| lock.try_read_acquire();
    a_qrwlocks_queued_reader_is_not_counted: RawQRwLock, |lock| lock.read_acquire_queued(Until::FOREVER).is_ok();
    a_qrwlocks_reader_beside_is_not_counted: RawQRwLock, |lock| lock.read_acquire_beside(Until::FOREVER, || true).is_ok();
    a_qrwlocks_try_is_not_counted: RawQRwLock, |lock| lock.try_read_acquire();
}
