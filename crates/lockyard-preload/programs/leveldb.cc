// LevelDB: reads and some writes by several threads, every value checked.
// leveldb FOLDER THREADS SECONDS
#include "store.h"
#include <leveldb/cache.h>
#include <leveldb/db.h>

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    const unsigned long keys = 20000;
    leveldb::Options options;
    options.create_if_missing = true;
    options.block_cache = leveldb::NewLRUCache(64 << 20);
    leveldb::DB *db = nullptr;
    leveldb::Status status = leveldb::DB::Open(options, words[1], &db);
    for (unsigned long k = 0; k < keys && status.ok(); k++)
        status = db->Put(leveldb::WriteOptions(), key_of(k), value_of(k, 1));
    if (!status.ok()) {
        fprintf(stderr, "%s\n", status.ToString().c_str());
        return 1;
    }
    db->CompactRange(nullptr, nullptr);
    int result = drive(
        keys, atoi(words[2]), atoi(words[3]), 10,
        [db](const std::string &key, std::string *value) { return db->Get(leveldb::ReadOptions(), key, value).ok(); },
        [db](const std::string &key, const std::string &value) { return db->Put(leveldb::WriteOptions(), key, value).ok(); });
    delete db;
    delete options.block_cache;
    return result;
}
