def find_hash_order(paths):
    return []
