// What the drivers of the key-value stores share: threads that read and write keys whose values say
// which key and which version they are.
//
// Thread t alone writes keys with k % threads == t, so it knows what each must hold; reads go to
// any key, and check that the value is whole.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

inline std::string key_of(unsigned long k)
{
    std::string key(16, '0');
    for (size_t place = 16; k; k /= 10)
        key[--place] = (char)('0' + k % 10);
    return key;
}

// The rest of a value: 84 bytes from a place of this text that only its key and version know.
// Making and comparing takes little time: it is the store's locks that are to be busy, not the
// driver.
inline const std::string &filler()
{
    static const std::string text = [] {
        std::string text;
        for (unsigned long random = 1; text.size() < 4096 + 84; random = random * 6364136223846793005ul + 1442695040888963407ul)
            text += (char)(random >> 56);
        return text;
    }();
    return text;
}

inline size_t place_of(unsigned long k, unsigned long version)
{
    return (k * 31 + version) % 4096;
}

inline std::string value_of(unsigned long k, unsigned long version)
{
    std::string value((const char *)&k, sizeof k);
    value.append((const char *)&version, sizeof version);
    return value.append(filler(), place_of(k, version), 84);
}

// Whether a value is one that key k may have; `version` gets which.
inline bool is_value_of(const std::string &value, unsigned long k, unsigned long &version)
{
    unsigned long key;
    if (value.size() != 100)
        return false;
    memcpy(&key, value.data(), sizeof key);
    memcpy(&version, value.data() + 8, sizeof version);
    return key == k && memcmp(value.data() + 16, filler().data() + place_of(k, version), 84) == 0;
}

// Runs `get(key, value) -> found` and `put(key, value) -> written` for some seconds and prints the
// result. Returns main's.
template <class Get, class Put> int drive(unsigned long keys, int threads, int seconds, int writes_per_1000, Get get, Put put)
{
    std::vector<unsigned long> versions(keys, 1);
    std::atomic<long> operations{ 0 }, errors{ 0 };
    std::atomic<bool> stop{ false };
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> all;
    for (int t = 0; t < threads; t++)
        all.emplace_back([&, t] {
            unsigned long random = (unsigned long)t * 7919 + 1;
            long mine = 0;
            std::string value;
            while (!stop) {
                random = random * 6364136223846793005ul + 1442695040888963407ul;
                unsigned long k = (random >> 20) % keys, version = 0;
                if ((int)(random >> 52) % 1000 < writes_per_1000) {
                    k = k - k % (unsigned long)threads + (unsigned long)t;
                    if (k >= keys)
                        continue;
                    errors += !put(key_of(k), value_of(k, versions[k] + 1));
                    versions[k]++;
                } else {
                    bool own = k % (unsigned long)threads == (unsigned long)t;
                    bool good = get(key_of(k), &value) && is_value_of(value, k, version) && (!own || version == versions[k]);
                    errors += !good;
                }
                mine++;
            }
            operations += mine;
        });
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    stop = true;
    for (auto &thread : all)
        thread.join();
    double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::string value;
    for (unsigned long k = 0; k < keys; k++) {
        unsigned long version = 0;
        errors += !(get(key_of(k), &value) && is_value_of(value, k, version) && version == versions[k]);
    }
    printf("%ld operations, %.6f seconds, %ld errors\n", (long)operations, took, (long)errors);
    return errors != 0;
}
