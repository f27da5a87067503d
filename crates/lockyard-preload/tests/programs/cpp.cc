// The C++ library on top: its mutexes, condition variables of both sorts, exceptions through a wait
// that is cancelled.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>
#include <atomic>
#include <pthread.h>
using namespace std::chrono_literals;

static std::mutex mutex;
static std::recursive_mutex recursive;
static std::timed_mutex timed;
static std::shared_mutex shared;
static std::shared_timed_mutex shared_timed;
static std::condition_variable condition;
static std::condition_variable_any any;
static long counts[5];
static int turn;
static std::atomic<int> waiting, unwound;

struct Witness {
    ~Witness() { unwound = mutex.try_lock() ? 1 : 2; }
};

static void *cancelled(void *)
{
    Witness witness;
    std::unique_lock<std::mutex> lock(mutex);
    waiting = 1;
    for (;;)
        condition.wait(lock);
}

int main()
{
    std::vector<std::thread> threads;
    for (int id = 0; id < 4; id++)
        threads.emplace_back([id] {
            for (int i = 0; i < 5000; i++) {
                { std::lock_guard<std::mutex> lock(mutex); counts[0]++; }
                { std::lock_guard<std::recursive_mutex> one(recursive), two(recursive); counts[1]++; }
                { std::unique_lock<std::timed_mutex> lock(timed, 60s); counts[2] += lock.owns_lock(); }
                if (i % 4 == 0) {
                    std::unique_lock<std::shared_mutex> lock(shared);
                    counts[3]++;
                } else {
                    std::shared_lock<std::shared_mutex> lock(shared);
                    volatile long seen = counts[3];
                    (void)seen;
                }
                { std::unique_lock<std::shared_timed_mutex> lock(shared_timed, 60s); counts[4] += lock.owns_lock(); }
            }
            for (int i = 0; i < 500; i++) {
                std::unique_lock<std::mutex> lock(mutex);
                condition.wait(lock, [&] { return turn % 4 == id; });
                turn++;
                condition.notify_all();
            }
        });
    for (auto &thread : threads)
        thread.join();
    for (long count : counts)
        std::printf("%ld\n", count);
    std::printf("turn %d\n", turn);
    {
        std::unique_lock<std::mutex> lock(mutex);
        std::printf("wait_for %d\n", condition.wait_for(lock, 10ms) == std::cv_status::timeout);
        std::printf("wait_until %d\n", condition.wait_until(lock, std::chrono::system_clock::now() + 10ms) == std::cv_status::timeout);
    }
    {
        std::shared_lock<std::shared_mutex> lock(shared);
        std::printf("any %d\n", any.wait_for(lock, 10ms) == std::cv_status::timeout);
        std::printf("try_lock %d\n", shared.try_lock());
    }
    std::printf("future %d\n", std::async(std::launch::async, [] { return 7; }).get());
    std::promise<int> promise;
    std::thread giver([&] { promise.set_value(9); });
    std::printf("promise %d\n", promise.get_future().get());
    giver.join();
    try {
        timed.lock();
        bool got = true;
        std::thread([&] { got = timed.try_lock_for(5ms); }).join();
        std::printf("try_lock_for %d\n", got);
        throw 5;
    } catch (int thrown) {
        timed.unlock();
        std::printf("thrown %d\n", thrown);
    }
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, cancelled, nullptr);
    while (!waiting)
        std::this_thread::yield();
    { std::lock_guard<std::mutex> lock(mutex); }
    pthread_cancel(thread);
    pthread_join(thread, &result);
    std::printf("cancelled %d, unwound with the mutex free: %d\n", result == PTHREAD_CANCELED, (int)unwound);
}
