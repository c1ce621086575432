/* The writes without rows: those of `arrow.LeftOutWrites`, for records of one batch. */

enum { SESSION_BITS = 11, SESSION_PLACES = 1 << SESSION_BITS, MOST_SESSIONS = SESSION_PLACES / 2 };

/* Bytes of the caller; null for none. */
typedef struct {
    const char *bytes;
    Py_ssize_t size;
} Text;

typedef struct {
    Text front, behind, but;
    long long last, latest; /* the numbers of two records that stay whole */
    int64_t sessions[SESSION_PLACES], session_count;
    uint8_t is_session[SESSION_PLACES];
} LeftOut;

static int begins(const uint8_t *p, int64_t size, const Text *text) {
    return size >= text->size && !memcmp(p, text->bytes, (size_t)text->size);
}

/* True if a path is `front`, one name, and then begins with `behind`, but does not begin with `but`. */
static int is_left_out(const LeftOut *left_out, const uint8_t *path, int64_t size) {
    int64_t at = left_out->front.size;
    if (!begins(path, size, &left_out->front))
        return 0;
    while (at < size && path[at] != '/')
        at++;
    return begins(path + at, size - at, &left_out->behind) &&
           !(left_out->but.bytes && begins(path, size, &left_out->but));
}

/* True if a session is none of those before, of which only so many are known. */
static int is_new_session(LeftOut *left_out, int64_t session) {
    uint64_t place = (uint64_t)session * 0x9E3779B97F4A7C15u >> (64 - SESSION_BITS);
    for (; left_out->is_session[place]; place = (place + 1) % SESSION_PLACES)
        if (left_out->sessions[place] == session)
            return 0;
    if (left_out->session_count < MOST_SESSIONS) {
        left_out->sessions[place] = session;
        left_out->is_session[place] = 1;
        left_out->session_count++;
    }
    return 1;
}

/* True if a record keeps all its rows; it is called once for each, in order. */
static int stays_whole(LeftOut *left_out, int64_t number, int64_t session) {
    return !left_out->front.bytes || is_new_session(left_out, session) || number == left_out->last ||
           number == left_out->latest;
}
