/* The bytes of a log for kernel.c: numbers, pieces, checksums and whole records.
 *
 * Only `Reader` reads bytes. It first compares each length with the rest; when something does not fit, or is not
 * decoded, it is `odd` from then on and returns zeros.
 */

#include <stdint.h>
#include <string.h>

static uint32_t u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int32_t i32(const uint8_t *p) { return (int32_t)u32(p); }

static int64_t i64(const uint8_t *p) { return (int64_t)((uint64_t)u32(p) << 32 | u32(p + 4)); }

/* Numbers in a buffer of the caller, which need not be aligned. */
static void put_long(uint8_t *to, int64_t place, int64_t value) { memcpy(to + 8 * place, &value, 8); }

static int64_t long_of(const uint8_t *from, int64_t place) {
    int64_t value;
    memcpy(&value, from + 8 * place, 8);
    return value;
}

typedef struct {
    const uint8_t *raw;
    int64_t at, end;
    int odd;
} Reader;

/* The place of a text or data; `there` is 0 for null. */
typedef struct {
    int32_t start, stop, there;
} Piece;

/* True if so many bytes are left. */
static int has(Reader *in, int64_t size) {
    if (in->odd || size < 0 || size > in->end - in->at)
        in->odd = 1;
    return !in->odd;
}

static int32_t next_int(Reader *in) {
    if (!has(in, 4))
        return 0;
    in->at += 4;
    return i32(in->raw + in->at - 4);
}

static int64_t next_long(Reader *in) {
    if (!has(in, 8))
        return 0;
    in->at += 8;
    return i64(in->raw + in->at - 8);
}

static int next_flag(Reader *in) {
    if (!has(in, 1) || in->raw[in->at] > 1) {
        in->odd = 1;
        return 0;
    }
    return in->raw[in->at++];
}

/* Bytes with their length in front; -1 stands for null. */
static Piece next_buffer(Reader *in) {
    Piece piece = {(int32_t)in->at, (int32_t)in->at, 0};
    int32_t size = next_int(in);
    if (in->odd || size == -1 || !has(in, size))
        return piece;
    piece.start = (int32_t)in->at;
    in->at += size;
    piece.stop = (int32_t)in->at;
    piece.there = 1;
    return piece;
}

static int is_ascii(const uint8_t *p, int64_t size) {
    uint8_t all = 0;
    for (int64_t i = 0; i < size; i++)
        all |= p[i];
    return all < 0x80;
}

/* A path in plain ASCII that begins with a slash; anything else is odd. */
static Piece next_path(Reader *in) {
    Piece piece = next_buffer(in);
    const uint8_t *p = in->raw + piece.start;
    if (in->odd || piece.stop == piece.start || *p != '/' || !is_ascii(p, piece.stop - piece.start))
        in->odd = 1;
    return piece;
}

enum { ADLER_BASE = 65521, ADLER_BLOCK = 16, ADLER_BLOCKS = 5552 / ADLER_BLOCK };

static uint32_t adler32_of(const uint8_t *p, int64_t size) {
    uint32_t one = 1, two = 0;
    while (size >= ADLER_BLOCK) {
        int64_t blocks = size / ADLER_BLOCK < ADLER_BLOCKS ? size / ADLER_BLOCK : ADLER_BLOCKS;
        size -= blocks * ADLER_BLOCK;
        for (; blocks > 0; blocks--, p += ADLER_BLOCK) {
            uint32_t sum = 0, weighted = 0;
            for (int i = 0; i < ADLER_BLOCK; i++) {
                sum += p[i];
                weighted += (uint32_t)(ADLER_BLOCK - i) * p[i];
            }
            two += ADLER_BLOCK * one + weighted;
            one += sum;
        }
        one %= ADLER_BASE;
        two %= ADLER_BASE;
    }
    for (; size > 0; size--, p++) {
        one += *p;
        two += one;
    }
    return two % ADLER_BASE << 16 | one % ADLER_BASE;
}

static uint32_t crc_tables[8][256];

static void make_crc_tables(void) {
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 64; bit++) {
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
            crc_tables[bit / 8][value] = crc;
        }
    }
}

/* zlib's crc32, eight bytes at a time. */
static uint32_t crc32_of(const uint8_t *p, int64_t size, uint32_t crc) {
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t four = crc ^ ((uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0]);
        crc = crc_tables[7][four & 0xFF] ^ crc_tables[6][four >> 8 & 0xFF] ^ crc_tables[5][four >> 16 & 0xFF] ^
              crc_tables[4][four >> 24] ^ crc_tables[3][p[4]] ^ crc_tables[2][p[5]] ^ crc_tables[1][p[6]] ^
              crc_tables[0][p[7]];
    }
    for (; size > 0; size--, p++)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *p) & 0xFF];
    return ~crc;
}

enum { FRAME = 12, HEADER = 32, MOST_RECORD = 64 * 1024 * 1024 };

/* The size of the record at a place of some bytes; 0 where there is none, and `needed` as `frames.find`. */
static int64_t record_at(const uint8_t *p, int64_t left, int64_t *needed) {
    *needed = FRAME;
    if (left < FRAME)
        return 0;
    int64_t checksum = i64(p);
    int32_t length = i32(p + 8);
    *needed = 0;
    if (length < HEADER || length > MOST_RECORD)
        return 0;
    if (FRAME + (int64_t)length >= left) {
        *needed = FRAME + (int64_t)length + 1;
        return 0;
    }
    if (p[FRAME + length] != 'B' || (int64_t)adler32_of(p + FRAME, length) != checksum)
        return 0;
    return FRAME + (int64_t)length + 1;
}

static int64_t find_records(const Py_buffer *data, int64_t at, uint8_t *starts, uint8_t *ends, int64_t room,
                            int64_t *needed) {
    const uint8_t *raw = data->buf;
    int64_t count = 0;
    for (; count < room; count++) {
        int64_t size = record_at(raw + at, data->len - at, needed);
        if (!size)
            break;
        put_long(starts, count, at);
        at += size;
        put_long(ends, count, at - 1);
    }
    return count;
}
