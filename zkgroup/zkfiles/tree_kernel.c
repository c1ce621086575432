/* Many records applied to the znodes that they change, with the digest of each: what `compiled_replay` calls.
 * docs/adr/0022 says why it is here, tree_kernel.pyi what each function gives.
 *
 * Sources: DataTree.java and DigestCalculator.java@3.9.4, as `tree` has them. Only what is plain is done here; for
 * anything else None is given, and nothing was done, for znodes are numbers in a buffer of the caller.
 * Every place that comes with a row is compared with what there is before it is used.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* --- CRC-32 -------------------------------------------------------------------------------------------- */

static uint32_t crc_tables[8][256];

static void make_crc_tables(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        crc_tables[0][value] = crc;
    }
    for (int place = 1; place < 8; place++)
        for (int value = 0; value < 256; value++) {
            uint32_t before = crc_tables[place - 1][value];
            crc_tables[place][value] = before >> 8 ^ crc_tables[0][before & 0xFF];
        }
}

/* zlib's crc32, eight bytes at a time. */
static uint32_t crc32_of(const uint8_t *p, int64_t size, uint32_t crc) {
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
        crc = crc_tables[7][low & 0xFF] ^ crc_tables[6][low >> 8 & 0xFF] ^ crc_tables[5][low >> 16 & 0xFF] ^
              crc_tables[4][low >> 24] ^ crc_tables[3][p[4]] ^ crc_tables[2][p[5]] ^ crc_tables[1][p[6]] ^
              crc_tables[0][p[7]];
    }
    for (; size > 0; size--, p++)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *p) & 0xFF];
    return ~crc;
}

/* --- pieces of a buffer -------------------------------------------------------------------------------- */

/* A column of `batches.Slices`: pairs of places in some bytes, and flags, or none where all are there. */
typedef struct {
    Py_buffer raw, bounds, present;
    int64_t rows;
} Pieces;

static void release_pieces(Pieces *pieces) {
    PyBuffer_Release(&pieces->raw);
    PyBuffer_Release(&pieces->bounds);
    PyBuffer_Release(&pieces->present);
}

/* The length of a piece, -1 for null, -2 where it is not within the bytes. */
static int64_t piece_of(const Pieces *pieces, int64_t row, const uint8_t **at) {
    int32_t bounds[2];
    if (pieces->present.buf && !((const uint8_t *)pieces->present.buf)[row])
        return -1;
    memcpy(bounds, (const uint8_t *)pieces->bounds.buf + row * (int64_t)sizeof bounds, sizeof bounds);
    if (bounds[0] < 0 || bounds[1] < bounds[0] || bounds[1] > pieces->raw.len)
        return -2;
    *at = (const uint8_t *)pieces->raw.buf + bounds[0];
    return bounds[1] - bounds[0];
}

/* Whether the columns are as long as the first; else an error is set. */
static int are_even(Pieces *pieces, Py_ssize_t other, Py_ssize_t width) {
    pieces->rows = pieces->bounds.len / 8;
    if (other / width >= pieces->rows && (!pieces->present.buf || pieces->present.len >= pieces->rows))
        return 1;
    PyErr_SetString(PyExc_ValueError, "columns of different lengths");
    return 0;
}

/* --- paths --------------------------------------------------------------------------------------------- */

enum { MOST_LEVELS = 64, MOST_PATH = 4096, NOT_COUNTED = -1, NO_MEMORY = -2 };

typedef struct {
    uint64_t hash;
    int64_t at;
    int32_t size, parent;
    uint32_t crc;
} Path;

typedef struct {
    PyObject_HEAD
    uint64_t seed;
    Path *paths;
    uint8_t *bytes;
    int32_t *slots;
    int64_t count, room, used, bytes_room, slot_count;
} Paths;

static uint64_t hash_of(uint64_t seed, const uint8_t *p, int64_t size) {
    uint64_t hash = seed ^ (uint64_t)size;
    for (; size > 0; size -= 8, p += 8) {
        uint64_t word = 0;
        memcpy(&word, p, size < 8 ? (size_t)size : 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

/* The slot that a path has, or would have. */
static int64_t slot_of(const Paths *self, uint64_t hash, const uint8_t *p, int64_t size) {
    int64_t mask = self->slot_count - 1, slot = (int64_t)(hash & (uint64_t)mask);
    for (;; slot = (slot + 1) & mask) {
        if (self->slots[slot] < 0)
            return slot;
        const Path *path = &self->paths[self->slots[slot]];
        if (path->hash == hash && path->size == size && !memcmp(self->bytes + path->at, p, (size_t)size))
            return slot;
    }
}

/* Twice the room of an array where it is full; 0 without memory. */
static int has_room(void **array, int64_t *room, int64_t needed, int64_t width) {
    int64_t more = *room ? *room : 1024;
    if (needed <= *room)
        return 1;
    while (more < needed)
        more *= 2;
    void *grown = PyMem_Realloc(*array, (size_t)(more * width));
    if (!grown)
        return 0;
    *array = grown;
    *room = more;
    return 1;
}

static int has_slots(Paths *self) {
    if (2 * (self->count + 1) < self->slot_count)
        return 1;
    int64_t more = self->slot_count ? 2 * self->slot_count : 4096;
    int32_t *slots = PyMem_Malloc((size_t)more * sizeof *slots);
    if (!slots)
        return 0;
    memset(slots, 0xFF, (size_t)more * sizeof *slots);
    PyMem_Free(self->slots);
    self->slots = slots;
    self->slot_count = more;
    for (int32_t code = 0; code < self->count; code++) {
        const Path *path = &self->paths[code];
        slots[slot_of(self, path->hash, self->bytes + path->at, path->size)] = code;
    }
    return 1;
}

/* The code of a path, with those above it; `stretches.PathCodes` has the same rules. */
static int32_t code_of(Paths *self, const uint8_t *p, int64_t size, int levels) {
    static const char outside[] = "/zookeeper/";
    if ((size == 1 && *p == '/') || size > MOST_PATH || levels > MOST_LEVELS || self->count > INT32_MAX / 4 ||
        (size >= (int64_t)sizeof outside - 1 && !memcmp(p, outside, sizeof outside - 1)))
        return NOT_COUNTED;
    if (!has_slots(self))
        return NO_MEMORY;
    uint64_t hash = hash_of(self->seed, p, size);
    int32_t known = self->slots[slot_of(self, hash, p, size)], parent = NOT_COUNTED;
    if (known >= 0)
        return known;
    int64_t above = size;
    while (above > 0 && p[above - 1] != '/')
        above--;
    if (size && (parent = code_of(self, p, above ? above - 1 : 0, levels + 1)) == NO_MEMORY)
        return NO_MEMORY;
    if (!has_slots(self) || !has_room((void **)&self->paths, &self->room, self->count + 1, sizeof *self->paths) ||
        !has_room((void **)&self->bytes, &self->bytes_room, self->used + size + 1, 1))
        return NO_MEMORY;
    memcpy(self->bytes + self->used, p, (size_t)size);
    self->paths[self->count] = (Path){hash, self->used, (int32_t)size, parent, crc32_of(p, size, 0)};
    self->slots[slot_of(self, hash, p, size)] = (int32_t)self->count;
    self->used += size;
    return (int32_t)self->count++;
}

static int code_rows(Paths *self, const Pieces *pieces, uint8_t *to) {
    for (int64_t row = 0; row < pieces->rows; row++) {
        const uint8_t *p = NULL;
        int64_t size = piece_of(pieces, row, &p);
        int64_t code = size < 0 ? NOT_COUNTED : code_of(self, p, size, 0);
        if (code == NO_MEMORY)
            return 0;
        memcpy(to + 8 * row, &code, 8);
    }
    return 1;
}

static PyObject *paths_codes(PyObject *self, PyObject *args) {
    Pieces pieces;
    Py_buffer codes;
    if (!PyArg_ParseTuple(args, "y*y*z*w*", &pieces.raw, &pieces.bounds, &pieces.present, &codes))
        return NULL;
    if (are_even(&pieces, codes.len, 8) && !code_rows((Paths *)self, &pieces, codes.buf))
        PyErr_NoMemory();
    release_pieces(&pieces);
    PyBuffer_Release(&codes);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *paths_from(PyObject *self, PyObject *args) {
    Paths *paths = (Paths *)self;
    long long first;
    if (!PyArg_ParseTuple(args, "L", &first))
        return NULL;
    PyObject *list = PyList_New(0);
    for (int64_t code = first < 0 ? 0 : first; list && code < paths->count; code++) {
        const Path *path = &paths->paths[code];
        PyObject *one = Py_BuildValue("s#ik", (const char *)paths->bytes + path->at, (Py_ssize_t)path->size,
                                      (int)path->parent, (unsigned long)path->crc);
        if (!one || PyList_Append(list, one))
            Py_CLEAR(list);
        Py_XDECREF(one);
    }
    return list;
}

static PyObject *paths_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    long long seed = 0;
    (void)named;
    if (!PyArg_ParseTuple(args, "L", &seed))
        return NULL;
    Paths *self = (Paths *)PyType_GenericAlloc(type, 0);
    if (self)
        self->seed = (uint64_t)seed;
    return (PyObject *)self;
}

static void paths_free(PyObject *object) {
    Paths *self = (Paths *)object;
    PyTypeObject *type = Py_TYPE(object);
    PyMem_Free(self->paths);
    PyMem_Free(self->bytes);
    PyMem_Free(self->slots);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* --- data ---------------------------------------------------------------------------------------------- */

/* For rows with a code the CRC of path and data, for others 0; 0 where something is outside. */
static int sum_rows(const Pieces *pieces, const uint8_t *codes, const Py_buffer *seeds, uint8_t *to) {
    for (int64_t row = 0; row < pieces->rows; row++) {
        const uint8_t *p = NULL;
        int64_t code, sum = 0;
        memcpy(&code, codes + 8 * row, 8);
        if (code >= seeds->len / 4)
            return 0;
        if (code >= 0) {
            uint32_t seed;
            int64_t size = piece_of(pieces, row, &p);
            memcpy(&seed, (const uint8_t *)seeds->buf + 4 * code, 4);
            if (size == -2)
                return 0;
            sum = size > 0 ? crc32_of(p, size, seed) : seed;
        }
        memcpy(to + 8 * row, &sum, 8);
    }
    return 1;
}

static PyObject *data_crcs(PyObject *module, PyObject *args) {
    Pieces pieces;
    Py_buffer codes, seeds, sums;
    int is_whole = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*z*y*y*w*", &pieces.raw, &pieces.bounds, &pieces.present, &codes, &seeds, &sums))
        return NULL;
    if (are_even(&pieces, codes.len < sums.len ? codes.len : sums.len, 8)) {
        Py_BEGIN_ALLOW_THREADS
        is_whole = sum_rows(&pieces, codes.buf, &seeds, sums.buf);
        Py_END_ALLOW_THREADS
        if (!is_whole)
            PyErr_SetString(PyExc_ValueError, "a place outside");
    }
    release_pieces(&pieces);
    PyBuffer_Release(&codes);
    PyBuffer_Release(&seeds);
    PyBuffer_Release(&sums);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* --- replay -------------------------------------------------------------------------------------------- */

/* The columns of the rows, all of 64-bit numbers; `OWN` and `ABOVE` are places in the znodes. */
enum { ZXID, SESSION, TIME, ACT, OWN, ABOVE, NEW_VERSION, IS_EPHEMERAL, COUNT, DIGEST, HAS_DIGEST, SUM, CLOSES,
       COLUMNS };
/* The fields of a znode, all of 64-bit numbers, as `compiled_replay` names them. */
enum { CZXID, MZXID, PZXID, CTIME, MTIME, VERSION, CVERSION, AVERSION, OWNER, CHILDREN, BASE, CRC, IS_THERE, MADE,
       WRITTEN, CHANGED, FIELDS };
enum { NOTHING, SET, MAKE, DROP };

typedef struct {
    const int64_t *columns[COLUMNS];
    int64_t rows, nodes, sessions;
    int64_t (*node)[FIELDS];
    const int64_t *session;
    int64_t *live;
    uint64_t sum;
    int64_t records, digests, wrong, first_wrong;
} Replay;

static void put(uint8_t *to, int64_t value, int size) {
    for (int i = size - 1; i >= 0; i--, value >>= 8)
        to[i] = (uint8_t)value;
}

/* Brings the digest up to a change of this znode. */
static void count_node(Replay *replay, int64_t *node) {
    uint8_t counted[60];
    put(counted, node[CZXID], 8);
    put(counted + 8, node[MZXID], 8);
    put(counted + 16, node[PZXID], 8);
    put(counted + 24, node[CTIME], 8);
    put(counted + 32, node[MTIME], 8);
    put(counted + 40, node[VERSION], 4);
    put(counted + 44, node[CVERSION], 4);
    put(counted + 48, node[AVERSION], 4);
    put(counted + 52, node[OWNER], 8);
    int64_t crc = crc32_of(counted, sizeof counted, (uint32_t)node[BASE]);
    replay->sum += (uint64_t)crc - (uint64_t)node[CRC];
    node[CRC] = crc;
    node[CHANGED] = 1;
}

static int64_t *node_at(const Replay *replay, int64_t place) {
    return place >= 0 && place < replay->nodes ? replay->node[place] : NULL;
}

/* The place of a session among those that end; -1 where it does not. They are sorted. */
static int64_t ending(const Replay *replay, int64_t session) {
    int64_t low = 0, high = replay->sessions;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (replay->session[middle] < session)
            low = middle + 1;
        else
            high = middle;
    }
    return low < replay->sessions && replay->session[low] == session ? low : -1;
}

static void own(Replay *replay, int64_t owner, int64_t more) {
    int64_t place = owner ? ending(replay, owner) : -1;
    if (place >= 0)
        replay->live[place] += more;
}

static int apply_set(Replay *replay, int64_t row) {
    int64_t *node = node_at(replay, replay->columns[OWN][row]);
    if (!node || !node[IS_THERE])
        return 0;
    node[MZXID] = replay->columns[ZXID][row];
    node[MTIME] = replay->columns[TIME][row];
    node[VERSION] = replay->columns[NEW_VERSION][row];
    node[BASE] = replay->columns[SUM][row];
    node[WRITTEN] = row;
    count_node(replay, node);
    return 1;
}

/* Whether an ephemeralOwner is a session: lifetimes.lifetime_of. */
static int is_session(int64_t owner) {
    const int64_t ttl = -((int64_t)1 << 56);
    return owner != 0 && owner != INT64_MIN && !(owner >= ttl && owner < ttl + ((int64_t)1 << 40));
}

static int apply_make(Replay *replay, int64_t row) {
    int64_t *node = node_at(replay, replay->columns[OWN][row]);
    int64_t *parent = node_at(replay, replay->columns[ABOVE][row]);
    int64_t zxid = replay->columns[ZXID][row], time = replay->columns[TIME][row];
    int64_t owner = replay->columns[IS_EPHEMERAL][row] ? replay->columns[SESSION][row] : 0;
    int64_t count = replay->columns[COUNT][row];
    if (!node || !parent || node == parent || node[IS_THERE] || !parent[IS_THERE])
        return 0;
    if (replay->columns[IS_EPHEMERAL][row] && !is_session(owner))
        return 0;
    if (count == -1)
        count = parent[CVERSION] + 1;
    if (count <= parent[CVERSION] || count >= INT32_MAX)
        return 0;
    parent[CVERSION] = count;
    parent[PZXID] = zxid;
    parent[CHILDREN]++;
    count_node(replay, parent);
    node[CZXID] = node[MZXID] = node[PZXID] = zxid;
    node[CTIME] = node[MTIME] = time;
    node[VERSION] = node[CVERSION] = node[AVERSION] = node[CHILDREN] = node[CRC] = 0;
    node[OWNER] = owner;
    node[BASE] = replay->columns[SUM][row];
    node[IS_THERE] = 1;
    node[MADE] = node[WRITTEN] = row;
    count_node(replay, node);
    own(replay, owner, 1);
    return 1;
}

static int apply_drop(Replay *replay, int64_t row) {
    int64_t *node = node_at(replay, replay->columns[OWN][row]);
    int64_t *parent = node_at(replay, replay->columns[ABOVE][row]);
    if (!node || !parent || node == parent || !node[IS_THERE] || !parent[IS_THERE] || node[CHILDREN])
        return 0;
    own(replay, node[OWNER], -1);
    replay->sum -= (uint64_t)node[CRC];
    node[CRC] = node[IS_THERE] = 0;
    node[CHANGED] = 1;
    parent[CHILDREN]--;
    parent[PZXID] = replay->columns[ZXID][row];
    count_node(replay, parent);
    return 1;
}

static int apply_row(Replay *replay, int64_t row) {
    switch (replay->columns[ACT][row]) {
    case NOTHING: return 1;
    case SET: return apply_set(replay, row);
    case MAKE: return apply_make(replay, row);
    case DROP: return apply_drop(replay, row);
    default: return 0;
    }
}

/* Behind the last row of a record. An end of a session has to have named all its ephemerals. */
static int end_record(Replay *replay, int64_t row, int64_t closed) {
    replay->records++;
    if (replay->columns[HAS_DIGEST][row]) {
        replay->digests++;
        if (replay->sum != (uint64_t)replay->columns[DIGEST][row] && !replay->wrong++)
            replay->first_wrong = replay->columns[ZXID][row];
    }
    int64_t place = closed < 0 ? -1 : ending(replay, replay->columns[SESSION][closed]);
    return closed < 0 || (place >= 0 && replay->live[place] == 0);
}

/* Whether all rows were plain. */
static int apply_rows(Replay *replay) {
    const int64_t *zxid = replay->columns[ZXID];
    int64_t closed = -1;
    for (int64_t row = 0; row < replay->rows; row++) {
        if (!apply_row(replay, row))
            return 0;
        if (replay->columns[CLOSES][row])
            closed = row;
        if (row + 1 == replay->rows || zxid[row + 1] != zxid[row]) {
            if (!end_record(replay, row, closed))
                return 0;
            closed = -1;
        }
    }
    return 1;
}

/* Points at 64-bit numbers in a buffer, which gives how many there are; 0 with an error set. */
static int64_t *longs_of(const Py_buffer *view, int64_t *count) {
    *count = view->len / 8;
    if ((uintptr_t)view->buf % 8 == 0)
        return view->buf;
    PyErr_SetString(PyExc_ValueError, "numbers that are not aligned");
    return NULL;
}

static int point(Replay *replay, const Py_buffer *columns, const Py_buffer *nodes, const Py_buffer *sessions,
                 const Py_buffer *live) {
    int64_t numbers, lives;
    const int64_t *first = longs_of(columns, &numbers);
    replay->rows = numbers / COLUMNS;
    replay->node = (int64_t (*)[FIELDS])longs_of(nodes, &replay->nodes);
    replay->nodes /= FIELDS;
    replay->session = longs_of(sessions, &replay->sessions);
    replay->live = longs_of(live, &lives);
    if (PyErr_Occurred())
        return 0;
    for (int column = 0; column < COLUMNS; column++)
        replay->columns[column] = first + column * replay->rows;
    if (lives == replay->sessions)
        return 1;
    PyErr_SetString(PyExc_ValueError, "as many counts as sessions are needed");
    return 0;
}

static PyObject *replay_rows(PyObject *module, PyObject *args) {
    Replay replay = {0};
    Py_buffer columns, nodes, sessions, live;
    long long sum;
    int is_plain = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*w*y*w*L", &columns, &nodes, &sessions, &live, &sum))
        return NULL;
    replay.sum = (uint64_t)sum;
    if (point(&replay, &columns, &nodes, &sessions, &live)) {
        Py_BEGIN_ALLOW_THREADS
        is_plain = apply_rows(&replay);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&columns);
    PyBuffer_Release(&nodes);
    PyBuffer_Release(&sessions);
    PyBuffer_Release(&live);
    if (PyErr_Occurred())
        return NULL;
    return !is_plain ? Py_NewRef(Py_None)
                     : Py_BuildValue("LLLLL", (long long)replay.records, (long long)replay.digests,
                                     (long long)replay.wrong, (long long)replay.first_wrong, (long long)replay.sum);
}

/* --- the module ---------------------------------------------------------------------------------------- */

static PyMethodDef path_methods[] = {
    {"codes", paths_codes, METH_VARARGS, "The codes of paths."},
    {"paths_from", paths_from, METH_VARARGS, "Paths from a code on, each with its parent's code and its CRC."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot path_slots[] = {
    {Py_tp_new, paths_new},
    {Py_tp_dealloc, paths_free},
    {Py_tp_methods, path_methods},
    {0, NULL},
};

static PyType_Spec path_spec = {"zkgroup.zkfiles.tree_kernel.Paths", sizeof(Paths), 0, Py_TPFLAGS_DEFAULT, path_slots};

static int begin(PyObject *module) {
    PyObject *type = PyType_FromSpec(&path_spec);
    make_crc_tables();
    int failed = !type || PyModule_AddType(module, (PyTypeObject *)type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyMethodDef methods[] = {
    {"data_crcs", data_crcs, METH_VARARGS, "The CRC of path and data of each row."},
    {"replay", replay_rows, METH_VARARGS, "Applies rows to znodes, and compares digests."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "tree_kernel", "Records applied to znodes.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_tree_kernel(void) { return PyModuleDef_Init(&definition); }
