/* The records of transaction logs as columns. kernel.pyi describes the functions, docs/adr/0022 has the reasons
 * for it.
 *
 * Sources: FileTxnLog.java, SerializeUtils.java and zookeeper.jute of ZooKeeper 3.4 to 3.9.
 *
 * Rules of this file:
 * - Only the `Reader` of kernel.h reads bytes of a log.
 * - Nothing is decided about damage: plain Python reads the whole of a piece with odd records.
 * - Columns are buffers that the caller made. Their sizes are compared before anything is written.
 */

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "kernel.h"
#include "left_out.h"

enum { DIGEST = 12, DIGEST_VERSION = 2 };
enum {
    CLOSE_SESSION = -11, CREATE_SESSION = -10, ERROR = -1, CREATE = 1, DELETE = 2, SET_DATA = 5, SET_ACL = 7,
    CHECK = 13, MULTI = 14, CREATE2 = 15, RECONFIG = 16, CREATE_CONTAINER = 19, DELETE_CONTAINER = 20,
    CREATE_TTL = 21
};

/* The order in which `fill` takes the columns. Flags show where there is a number or a slice. */
enum { ZXID, SESSION, TIME, OFFSET, TREE_DIGEST, TTL, LONGS };
enum { EPOCH, SUB, CXID, TYPE, OP, LIFETIME, ACL, VERSION, ERROR_CODE, TIMEOUT, PARENT_CVERSION, INTS };
enum { PATH, PARENT, DATA, PIECES };
enum {
    APPLIED, HAS_DIGEST, HAS_TTL, HAS_VERSION, HAS_ERROR, HAS_TIMEOUT, HAS_PARENT_CVERSION, HAS_PATH, HAS_PARENT,
    HAS_DATA, FLAGS
};
/* The columns of records that have rows. */
enum { RECORD_ZXID, RECORD_SESSION, RECORD_TIME, RECORD_TYPE, RECORD_COLUMNS };
enum { FIRST_INT = LONGS, FIRST_PIECE = FIRST_INT + INTS, FIRST_FLAG = FIRST_PIECE + PIECES };
enum { FIRST_OF_RECORD = FIRST_FLAG + FLAGS, COLUMNS = FIRST_OF_RECORD + RECORD_COLUMNS };
enum { MOST_ACLS = 256 };

/* One operation. */
typedef struct {
    int64_t longs[LONGS];
    int32_t ints[INTS], pieces[PIECES][2];
    uint8_t flags[FLAGS];
} Row;

typedef struct {
    Py_buffer views[COLUMNS];
    uint8_t *at[COLUMNS];
    int64_t rows, records, room;
    int32_t acls[MOST_ACLS][2], acl_count, last_acl;
    const uint8_t *raw;
    Text prefix;
    LeftOut left_out;
    int is_whole; /* 1 if nothing of the present record is left out */
} Table;

/* A record of a chunk: `in` stands behind its header, which is in `head`. */
typedef struct {
    Reader in;
    Row head;
} Record;

static Record open_record(const Py_buffer *data, int64_t start, int64_t end) {
    Record record;
    Reader *in = &record.in;
    Row *head = &record.head;
    memset(&record, 0, sizeof record);
    in->raw = data->buf;
    in->odd = start < 0 || end > data->len || end - start < FRAME + HEADER;
    in->at = start + FRAME;
    in->end = end;
    head->longs[OFFSET] = start;
    head->longs[SESSION] = next_long(in);
    head->ints[CXID] = next_int(in);
    head->longs[ZXID] = next_long(in);
    head->longs[TIME] = next_long(in);
    head->ints[TYPE] = next_int(in);
    head->ints[EPOCH] = (int32_t)(head->longs[ZXID] >> 32);
    head->flags[APPLIED] = 1;
    return record;
}

/* The number of parts that follow, of at least so many bytes. */
static int64_t next_count(Reader *in, int64_t smallest) {
    int32_t count = next_int(in);
    has(in, count < 0 ? -1 : count * smallest);
    return in->odd ? 0 : count;
}

/* True if a close has no list: before 3.6, and where twelve bytes are a digest. */
static int has_no_list(const Reader *in) {
    int64_t left = in->end - in->at;
    return left == 0 || (left == DIGEST && i32(in->raw + in->at) == DIGEST_VERSION);
}

static int64_t count_rows(Record *record) {
    Reader in = record->in;
    int32_t kind = record->head.ints[TYPE];
    int64_t rows = 1;
    if (kind == MULTI)
        rows = next_count(&in, 8);
    else if (kind == CLOSE_SESSION && !in.odd && !has_no_list(&in))
        rows = 1 + next_count(&in, 4);
    record->in.odd |= in.odd;
    return rows;
}

static Row row_of(const Record *record, int32_t kind, int64_t sub) {
    Row row = record->head;
    row.ints[TYPE] = kind;
    row.ints[SUB] = (int32_t)sub;
    for (int piece = 0; piece < PIECES; piece++) /* where nothing comes: empty, behind those of the row before */
        row.pieces[piece][0] = row.pieces[piece][1] = (int32_t)record->in.at;
    return row;
}

static void set_int(Row *row, int column, int32_t value) {
    row->ints[column] = value;
    row->flags[HAS_VERSION + column - VERSION] = 1;
}

static void set_piece(Row *row, int column, Piece piece) {
    if (!piece.there)
        return;
    row->pieces[column][0] = piece.start;
    row->pieces[column][1] = piece.stop;
    row->flags[HAS_PATH + column] = 1;
}

/* The path, and the one above; the root has none. */
static void set_path(Row *row, Reader *in) {
    Piece path = next_path(in);
    if (in->odd)
        return;
    set_piece(row, PATH, path);
    path.there = path.stop - path.start > 1;
    while (path.there && in->raw[path.stop - 1] != '/')
        path.stop--;
    path.stop -= path.stop - 1 > path.start;
    set_piece(row, PARENT, path);
}

/* Places in `columns._OPS`. */
static int32_t op_of(int32_t kind, int has_path) {
    switch (kind) {
    case CHECK: return 1;
    case CLOSE_SESSION: return has_path ? 5 : 2;
    case CREATE: case CREATE2: case CREATE_CONTAINER: case CREATE_TTL: return 3;
    case CREATE_SESSION: return 4;
    case DELETE: case DELETE_CONTAINER: return 5;
    case ERROR: return 6;
    case SET_DATA: case RECONFIG: return 7;
    case SET_ACL: return 8;
    default: return 0;
    }
}

/* True for writes that may be left out: sets, and creates of persistent znodes, that were applied. */
static int is_plain_write(const Row *row) {
    int32_t kind = row->ints[TYPE];
    return row->flags[APPLIED] && !row->ints[LIFETIME] && (kind == SET_DATA || kind == CREATE || kind == CREATE2);
}

static int is_wanted(const Table *table, const Row *row) {
    const uint8_t *path = table->raw + row->pieces[PATH][0];
    int64_t size = row->pieces[PATH][1] - row->pieces[PATH][0];
    if (table->prefix.bytes && !(row->flags[HAS_PATH] && begins(path, size, &table->prefix)))
        return 0;
    return table->is_whole || !is_plain_write(row) || !is_left_out(&table->left_out, path, size);
}

static void put_row(Table *table, Row *row) {
    int64_t at = table->rows;
    if (!is_wanted(table, row))
        return;
    row->ints[OP] = op_of(row->ints[TYPE], row->flags[HAS_PATH]);
    for (int i = 0; i < LONGS; i++)
        if (table->at[i])
            memcpy(table->at[i] + 8 * at, &row->longs[i], 8);
    for (int i = 0; i < INTS; i++)
        if (table->at[FIRST_INT + i])
            memcpy(table->at[FIRST_INT + i] + 4 * at, &row->ints[i], 4);
    for (int i = 0; i < PIECES; i++)
        if (table->at[FIRST_PIECE + i])
            memcpy(table->at[FIRST_PIECE + i] + 8 * at, row->pieces[i], 8);
    for (int i = 0; i < FLAGS; i++)
        if (table->at[FIRST_FLAG + i])
            table->at[FIRST_FLAG + i][at] = row->flags[i];
    table->rows++;
}

static const char OPEN_ACL[] = "\0\0\0\x01\0\0\0\x1f\0\0\0\x05world\0\0\0\x06" "anyone";
enum { OPEN_ACL_SIZE = sizeof OPEN_ACL - 1 };

static int begins_with(const Reader *in, const char *bytes, int64_t size) {
    return in->end - in->at >= size && !memcmp(in->raw + in->at, bytes, (size_t)size);
}

static void skip_acl(Reader *in) {
    for (int64_t count = next_count(in, 12); count > 0 && !in->odd; count--) {
        next_int(in);
        for (int text = 0; text < 2 && !in->odd; text++) {
            Piece piece = next_buffer(in);
            in->odd |= !piece.there || !is_ascii(in->raw + piece.start, piece.stop - piece.start);
        }
    }
}

/* The code of a list of ACL entries: 0 for null, 1 for the open one, else 2 and its place in `acls`. */
static int32_t next_acl(Table *table, Reader *in) {
    int64_t start = in->at;
    if (begins_with(in, OPEN_ACL, OPEN_ACL_SIZE) || begins_with(in, "\xff\xff\xff\xff", 4)) {
        int is_open = in->raw[start] == 0;
        in->at += is_open ? OPEN_ACL_SIZE : 4;
        return is_open;
    }
    skip_acl(in);
    for (int32_t turn = 0; turn < table->acl_count && !in->odd; turn++) {
        int32_t place = (table->last_acl + turn) % table->acl_count, *known = table->acls[place];
        if (known[1] - known[0] == in->at - start &&
            !memcmp(in->raw + known[0], in->raw + start, (size_t)(in->at - start)))
            return 2 + (table->last_acl = place);
    }
    in->odd |= table->acl_count == MOST_ACLS;
    if (in->odd)
        return 0;
    table->acls[table->acl_count][0] = (int32_t)start;
    table->acls[table->acl_count][1] = (int32_t)in->at;
    return 2 + (table->last_acl = table->acl_count++);
}

static void read_create(Table *table, Reader *in, Row *row) {
    int32_t kind = row->ints[TYPE];
    set_path(row, in);
    set_piece(row, DATA, next_buffer(in));
    row->ints[ACL] = next_acl(table, in);
    row->ints[LIFETIME] = kind == CREATE_CONTAINER ? 2 : kind == CREATE_TTL ? 3 : next_flag(in);
    set_int(row, PARENT_CVERSION, next_int(in));
    row->flags[HAS_TTL] = kind == CREATE_TTL;
    if (kind == CREATE_TTL)
        row->longs[TTL] = next_long(in);
}

static void read_body(Table *table, Reader *in, Row *row) {
    switch (row->ints[TYPE]) {
    case CREATE: case CREATE2: case CREATE_CONTAINER: case CREATE_TTL:
        read_create(table, in, row);
        break;
    case DELETE: case DELETE_CONTAINER:
        set_path(row, in);
        break;
    case SET_DATA: case RECONFIG:
        set_path(row, in);
        set_piece(row, DATA, next_buffer(in));
        set_int(row, VERSION, next_int(in));
        break;
    case SET_ACL:
        set_path(row, in);
        row->ints[ACL] = next_acl(table, in);
        set_int(row, VERSION, next_int(in));
        break;
    case CHECK:
        set_path(row, in);
        set_int(row, VERSION, next_int(in));
        break;
    case ERROR:
        set_int(row, ERROR_CODE, next_int(in));
        break;
    default:
        in->odd = 1;
    }
}

/* True if one of so many operations is an error: then none of them was applied. */
static int has_error(Reader in, int64_t count) {
    for (; count > 0 && !in.odd; count--) {
        int32_t kind = next_int(&in), size = next_int(&in);
        if (kind == ERROR)
            return 1;
        if (has(&in, size))
            in.at += size;
    }
    return 0;
}

static void read_multi(Table *table, Record *record) {
    Reader *in = &record->in;
    int64_t count = next_count(in, 8);
    record->head.flags[APPLIED] = !has_error(*in, count);
    for (int64_t sub = 0; sub < count && !in->odd; sub++) {
        int32_t kind = next_int(in), size = next_int(in);
        if (!has(in, size))
            return;
        Row row = row_of(record, kind, sub);
        Reader part = {in->raw, in->at, in->at + size, 0};
        read_body(table, &part, &row);
        in->at += size;
        in->odd |= part.odd || part.at != part.end;
        put_row(table, &row);
    }
}

static void read_close(Table *table, Record *record) {
    Reader *in = &record->in;
    int64_t count = has_no_list(in) ? 0 : next_count(in, 4);
    Row close = row_of(record, CLOSE_SESSION, -1);
    put_row(table, &close);
    for (int64_t sub = 0; sub < count && !in->odd; sub++) {
        Row row = row_of(record, CLOSE_SESSION, sub);
        set_path(&row, in);
        put_row(table, &row);
    }
}

static void read_single(Table *table, Record *record) {
    record->head.flags[APPLIED] = record->head.ints[TYPE] != ERROR;
    Row row = row_of(record, record->head.ints[TYPE], -1);
    if (row.ints[TYPE] == CREATE_SESSION)
        set_int(&row, TIMEOUT, next_int(&record->in));
    else
        read_body(table, &record->in, &row);
    put_row(table, &row);
}

/* Nothing or a digest is behind the operations, and all rows of a record have it. */
static void read_end(Table *table, Record *record, int64_t first) {
    Reader *in = &record->in;
    Row *head = &record->head;
    if (!in->odd && in->at != in->end) {
        head->flags[HAS_DIGEST] = 1;
        next_int(in);
        head->longs[TREE_DIGEST] = next_long(in);
        in->odd |= in->at != in->end;
    }
    for (int64_t row = first; row < table->rows; row++) {
        if (table->at[TREE_DIGEST])
            put_long(table->at[TREE_DIGEST], row, head->longs[TREE_DIGEST]);
        if (table->at[FIRST_FLAG + HAS_DIGEST])
            table->at[FIRST_FLAG + HAS_DIGEST][row] = head->flags[HAS_DIGEST];
    }
}

static void put_record(Table *table, const Row *head) {
    uint8_t **at = table->at + FIRST_OF_RECORD;
    int64_t longs[] = {head->longs[ZXID], head->longs[SESSION], head->longs[TIME]};
    for (int i = RECORD_ZXID; i < RECORD_TYPE; i++)
        if (at[i])
            put_long(at[i], table->records, longs[i]);
    if (at[RECORD_TYPE])
        memcpy(at[RECORD_TYPE] + 4 * table->records, &head->ints[TYPE], 4);
    table->records++;
}

/* All rows of a record; 0 where it is odd. There is room for them, for their count was compared with it. */
static int read_record(Table *table, Record *record, int64_t number) {
    int64_t first = table->rows, rows = count_rows(record);
    if (record->in.odd || rows > table->room - first || (rows && table->records == table->room))
        return 0;
    if (rows) {
        table->is_whole = stays_whole(&table->left_out, number, record->head.longs[SESSION]);
        put_record(table, &record->head);
    }
    if (record->head.ints[TYPE] == MULTI)
        read_multi(table, record);
    else if (record->head.ints[TYPE] == CLOSE_SESSION)
        read_close(table, record);
    else
        read_single(table, record);
    read_end(table, record, first);
    return !record->in.odd;
}

static PyObject *find(PyObject *module, PyObject *args) {
    Py_buffer data, starts, ends;
    long long at;
    int64_t count = -1, needed = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*Lw*w*", &data, &at, &starts, &ends))
        return NULL;
    if (at < 0 || at > data.len)
        PyErr_SetString(PyExc_ValueError, "a place outside the bytes");
    else {
        Py_BEGIN_ALLOW_THREADS
        int64_t room = (starts.len < ends.len ? starts.len : ends.len) / 8;
        count = find_records(&data, at, starts.buf, ends.buf, room, &needed);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&starts);
    PyBuffer_Release(&ends);
    return count < 0 ? NULL : Py_BuildValue("LL", (long long)count, (long long)needed);
}

/* The records of a chunk that a call is about. */
typedef struct {
    Py_buffer data, starts, ends;
    long long first, until, from_zxid, to_zxid;
} Chunk;

static void release(Chunk *chunk) {
    PyBuffer_Release(&chunk->data);
    PyBuffer_Release(&chunk->starts);
    PyBuffer_Release(&chunk->ends);
}

static int is_within(const Chunk *chunk) {
    int64_t count = (chunk->starts.len < chunk->ends.len ? chunk->starts.len : chunk->ends.len) / 8;
    if (chunk->first >= 0 && chunk->until <= count && chunk->data.len <= INT32_MAX)
        return 1;
    PyErr_SetString(PyExc_ValueError, "records outside the chunk");
    return 0;
}

static Record record_of(const Chunk *chunk, int64_t number) {
    return open_record(&chunk->data, long_of(chunk->starts.buf, number), long_of(chunk->ends.buf, number));
}

/* A batch: its number of rows, and the last and the latest of its records with rows. */
typedef struct {
    int64_t rows, last, latest, latest_ms;
    int is_past;
} Measure;

/* The record behind the batch; -1 where one is odd. */
static int64_t measure_records(const Chunk *chunk, int64_t most, Measure *found) {
    int64_t number = chunk->first;
    for (; number < chunk->until && found->rows < most; number++) {
        Record record = record_of(chunk, number);
        const int64_t *longs = record.head.longs;
        found->is_past = longs[ZXID] > chunk->to_zxid;
        if (found->is_past)
            break;
        int64_t rows = longs[ZXID] >= chunk->from_zxid ? count_rows(&record) : 0;
        if (record.in.odd)
            return -1;
        if (rows && (found->latest < 0 || longs[TIME] > found->latest_ms)) {
            found->latest = number;
            found->latest_ms = longs[TIME];
        }
        found->last = rows ? number : found->last;
        found->rows += rows;
    }
    return number;
}

static PyObject *measure(PyObject *module, PyObject *args) {
    Chunk chunk;
    long long most;
    int64_t until = -1;
    Measure found = {0, -1, -1, 0, 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*LLLLL", &chunk.data, &chunk.starts, &chunk.ends, &chunk.first, &chunk.until,
                          &chunk.from_zxid, &chunk.to_zxid, &most))
        return NULL;
    if (is_within(&chunk)) {
        Py_BEGIN_ALLOW_THREADS
        until = measure_records(&chunk, most, &found);
        Py_END_ALLOW_THREADS
    }
    release(&chunk);
    if (PyErr_Occurred())
        return NULL;
    return until < 0 ? Py_NewRef(Py_None)
                     : Py_BuildValue("LLiLL", (long long)until, (long long)found.rows, found.is_past,
                                     (long long)found.last, (long long)found.latest);
}

/* True if all records between the zxids were read. */
static int fill_records(const Chunk *chunk, Table *table) {
    for (int64_t number = chunk->first; number < chunk->until; number++) {
        Record record = record_of(chunk, number);
        int64_t zxid = record.head.longs[ZXID];
        int is_within_zxids = zxid >= chunk->from_zxid && zxid <= chunk->to_zxid;
        if (record.in.odd || (is_within_zxids && !read_record(table, &record, number)))
            return 0;
    }
    return 1;
}

/* Bytes of a value of a column. */
static int width_of(int column) {
    if (column >= FIRST_OF_RECORD)
        return column == FIRST_OF_RECORD + RECORD_TYPE ? 4 : 8;
    return column < FIRST_INT ? 8 : column < FIRST_PIECE ? 4 : column < FIRST_FLAG ? 8 : 1;
}

/* Takes the buffers of the columns; None stands for one that is not wanted. 0 with an error set. */
static int get_columns(Table *table, PyObject *columns) {
    if (PyTuple_Size(columns) != COLUMNS) {
        PyErr_Format(PyExc_ValueError, "a tuple of %d columns is needed", COLUMNS);
        return 0;
    }
    for (int i = 0; i < COLUMNS; i++) {
        PyObject *column = PyTuple_GetItem(columns, i);
        int width = width_of(i);
        if (column == Py_None)
            continue;
        if (PyObject_GetBuffer(column, &table->views[i], PyBUF_WRITABLE))
            return 0;
        table->at[i] = table->views[i].buf;
        if (table->views[i].len / width < table->room) {
            PyErr_SetString(PyExc_ValueError, "a column that is too short");
            return 0;
        }
    }
    return 1;
}

static PyObject *filled(const Chunk *chunk, Table *table, PyObject *columns) {
    int is_whole = 0;
    if (is_within(chunk) && get_columns(table, columns)) {
        Py_BEGIN_ALLOW_THREADS
        is_whole = fill_records(chunk, table);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < COLUMNS; i++)
        if (table->at[i])
            PyBuffer_Release(&table->views[i]);
    if (PyErr_Occurred())
        return NULL;
    return is_whole ? Py_BuildValue("LLy#", (long long)table->rows, (long long)table->records,
                                    (const char *)table->acls,
                                    (Py_ssize_t)sizeof table->acls[0] * table->acl_count)
                    : Py_NewRef(Py_None);
}

/* Takes the writes to leave out, if there are any; 0 with an error set. */
static int get_left_out(LeftOut *left_out, PyObject *given) {
    return given == Py_None || PyArg_ParseTuple(given, "s#s#z#LL", &left_out->front.bytes, &left_out->front.size,
                                                &left_out->behind.bytes, &left_out->behind.size,
                                                &left_out->but.bytes, &left_out->but.size, &left_out->last,
                                                &left_out->latest);
}

static PyObject *fill(PyObject *module, PyObject *args) {
    Chunk chunk;
    PyObject *columns, *left_out, *result = NULL;
    long long room;
    Text prefix = {NULL, 0};
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*LLLLLz#OO", &chunk.data, &chunk.starts, &chunk.ends, &chunk.first,
                          &chunk.until, &chunk.from_zxid, &chunk.to_zxid, &room, &prefix.bytes, &prefix.size,
                          &left_out, &columns))
        return NULL;
    Table *table = PyMem_Calloc(1, sizeof *table);
    if (!table)
        PyErr_NoMemory();
    else if (get_left_out(&table->left_out, left_out)) {
        table->room = room;
        table->raw = chunk.data.buf;
        table->prefix = prefix;
        result = filled(&chunk, table, columns);
    }
    PyMem_Free(table);
    release(&chunk);
    return result;
}

enum { BYTES, BOUNDS, SEEDS, SUMS, BUFFERS };

/* True if all slices are within the bytes. */
static int sum_pieces(const Py_buffer *views, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        int32_t piece[2];
        memcpy(piece, (const uint8_t *)views[BOUNDS].buf + 4 * i, sizeof piece);
        if (piece[0] < 0 || piece[1] < piece[0] || piece[1] > views[BYTES].len)
            return 0;
        const uint8_t *p = (const uint8_t *)views[BYTES].buf + piece[0];
        put_long(views[SUMS].buf, i, crc32_of(p, piece[1] - piece[0], (uint32_t)long_of(views[SEEDS].buf, i)));
    }
    return 1;
}

static PyObject *crcs(PyObject *module, PyObject *args) {
    Py_buffer views[BUFFERS];
    int is_whole = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "y*y*y*w*", &views[BYTES], &views[BOUNDS], &views[SEEDS], &views[SUMS]))
        return NULL;
    int64_t count = views[SUMS].len / 8;
    if (views[SEEDS].len / 8 >= count && views[BOUNDS].len / 4 > count) {
        Py_BEGIN_ALLOW_THREADS
        is_whole = sum_pieces(views, count);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&views[i]);
    if (!is_whole)
        PyErr_SetString(PyExc_ValueError, "pieces outside the bytes, or too few numbers");
    return is_whole ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef methods[] = {
    {"find", find, METH_VARARGS, "Whole records from a place of some bytes on."},
    {"measure", measure, METH_VARARGS, "How many records make a batch, how many rows, and whether the next is past."},
    {"fill", fill, METH_VARARGS, "Fills columns with the rows of some records."},
    {"crcs", crcs, METH_VARARGS, "The CRCs of pieces of some bytes."},
    {NULL, NULL, 0, NULL},
};

/* It changes whenever the functions take or return something else: `frames.kernel` accepts no other. */
enum { KERNEL_VERSION = 3 };

static int begin(PyObject *module) {
    make_crc_tables();
    return PyModule_AddIntConstant(module, "VERSION", KERNEL_VERSION);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, begin}, {0, NULL}};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "kernel", "Records of transaction logs as columns.", 0, methods, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit_kernel(void) { return PyModuleDef_Init(&definition); }
