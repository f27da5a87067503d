// RocksDB with one cache shard: the published lock-bound case. Reads and some writes by several
// threads, every value checked.
// rocksdb FOLDER THREADS SECONDS
#include "store.h"
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/table.h>

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    const unsigned long keys = 50000;
    rocksdb::Options options;
    options.create_if_missing = true;
    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(64 << 20, 0);
    table.cache_index_and_filter_blocks = true;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB *db = nullptr;
    rocksdb::Status status = rocksdb::DB::Open(options, words[1], &db);
    for (unsigned long k = 0; k < keys && status.ok(); k++)
        status = db->Put(rocksdb::WriteOptions(), key_of(k), value_of(k, 1));
    if (status.ok())
        status = db->CompactRange(rocksdb::CompactRangeOptions(), nullptr, nullptr);
    if (!status.ok()) {
        fprintf(stderr, "%s\n", status.ToString().c_str());
        return 1;
    }
    int result = drive(
        keys, atoi(words[2]), atoi(words[3]), 2,
        [db](const std::string &key, std::string *value) { return db->Get(rocksdb::ReadOptions(), key, value).ok(); },
        [db](const std::string &key, const std::string &value) { return db->Put(rocksdb::WriteOptions(), key, value).ok(); });
    delete db;
    return result;
}
