/* Load: one thread, one epoll; prints one line of JSON with what clients saw.
 *
 *     load --port 8080 --bodies bodies.jsonl --connections 32 --seconds 2          as fast as answers come
 *     load --port 8080 --bodies bodies.jsonl --connections 512 --requests 512      so many, started at once
 *     load --port 8080 --bodies bodies.jsonl --connections 64 --seconds 4 --rate 200      Poisson arrivals
 *
 * The file has one JSON body a line; requests take them in turn. Sixteen # in a body are replaced by a number
 * that no other request has, so that prompts differ from there on. --chunks N says how many marked chunks a
 * complete answer has (0: it is not a stream); an answer that is not 200, breaks off or has another number of
 * chunks is an error. Latencies of open arrivals count from when the request was due. `chunk_delay_us` leaves
 * out the first chunk of each stream, which `ttft_us` has.
 */
#include "common.h"

#include <getopt.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char hole[] = "################";
#define HOLE_BYTES (sizeof hole - 1)

typedef struct {
    char *bytes; /* head and body */
    size_t length, hole;
} template;

typedef struct {
    int descriptor;
    bool busy, blocked;
    uint64_t due_ns;
    message answer;
    output out;
    int chunks, digits_left;
    uint64_t stamp_ns;
} connection;

typedef struct {
    uint32_t *us;
    size_t count, capacity;
} samples;

static int epoll_descriptor, port = 8080, connections = 16, chunks_expected;
static double seconds = 3, rate, patience_s = 20;
static long requests;
static const char *path = "/v1/chat/completions", *bodies_path;
static template *templates;
static size_t template_count;
static connection *all;

static samples latencies, delays, first_chunks;
static uint64_t serial, started, finished, errors, chunks_seen, reconnections;
static char first_error[200];
static uint64_t now, begin_ns, end_ns; /* `now` is taken once a round and before each answer is read */

static void add_sample(samples *s, uint64_t ns)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 65536;
        s->us = must(realloc(s->us, s->capacity * sizeof *s->us));
    }
    uint64_t us = ns / 1000;
    s->us[s->count++] = us > UINT32_MAX ? UINT32_MAX : (uint32_t)us;
}

/* Requests */

static void add_template(const char *body, size_t length)
{
    template *t = &templates[template_count++];
    char head[512];
    int head_bytes = snprintf(head, sizeof head,
                              "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                              "Authorization: Bearer sk-local\r\nUser-Agent: load/1\r\nAccept: */*\r\n"
                              "Content-Length: %zu\r\n\r\n",
                              path, port, length);
    t->length = (size_t)head_bytes + length;
    t->bytes = must(malloc(t->length));
    memcpy(t->bytes, head, (size_t)head_bytes);
    memcpy(t->bytes + head_bytes, body, length);
    char *found = memmem(t->bytes, t->length, hole, HOLE_BYTES);
    if (!found) {
        fprintf(stderr, "%s: a body without %s\n", bodies_path, hole);
        exit(2);
    }
    t->hole = (size_t)(found - t->bytes);
}

static void read_bodies(void)
{
    FILE *file = fopen(bodies_path, "rb");
    char *line = NULL;
    size_t capacity = 0;
    if (!file)
        fail(bodies_path);
    for (ssize_t length; (length = getline(&line, &capacity, file)) > 1;) {
        templates = must(realloc(templates, (template_count + 1) * sizeof *templates));
        add_template(line, (size_t)length - (line[length - 1] == '\n'));
    }
    free(line);
    fclose(file);
    if (!template_count) {
        fprintf(stderr, "%s: no bodies\n", bodies_path);
        exit(2);
    }
}

static void dial(connection *c)
{
    c->descriptor = connect_to(port);
    if (c->descriptor < 0)
        fail("connect");
    c->blocked = false;
    watch(epoll_descriptor, EPOLL_CTL_ADD, c->descriptor, false, c);
}

static void redial(connection *c)
{
    close(c->descriptor);
    output_clear(&c->out);
    reconnections++;
    dial(c);
}

static void send_rest(connection *c)
{
    bool blocked = output_flush(&c->out, c->descriptor) == 0; /* a broken connection is seen when read */
    if (blocked != c->blocked) {
        c->blocked = blocked;
        watch(epoll_descriptor, EPOLL_CTL_MOD, c->descriptor, blocked, c);
    }
}

static void start(connection *c, uint64_t due_ns)
{
    template *t = &templates[serial % template_count];
    char number[HOLE_BYTES + 1];
    snprintf(number, sizeof number, "%016llu", (unsigned long long)serial++);
    output_add(&c->out, t->bytes, t->length);
    memcpy(c->out.bytes + t->hole, number, HOLE_BYTES);
    message_begin(&c->answer, true);
    c->busy = true;
    c->due_ns = due_ns;
    c->chunks = c->digits_left = 0;
    started++;
    send_rest(c);
}

/* Answers */

static void note_error(const char *what, int value)
{
    if (!errors++)
        snprintf(first_error, sizeof first_error, "%s %d", what, value);
}

static bool more_to_start(void)
{
    return requests ? started < (uint64_t)requests : now < end_ns;
}

static void finish(connection *c)
{
    c->busy = false;
    finished++;
    if (c->answer.stage != AT_END)
        note_error("broken answer at stage", (int)c->answer.stage);
    else if (c->answer.status != 200)
        note_error("status", c->answer.status);
    else if (c->chunks != chunks_expected)
        note_error("chunks", c->chunks);
    else
        add_sample(&latencies, now - c->due_ns);
    if (c->answer.stage != AT_END || !c->answer.keep_alive)
        redial(c);
    if (rate <= 0 && more_to_start())
        start(c, now);
}

static void note_chunk(connection *c)
{
    chunks_seen++;
    if (c->chunks++)
        add_sample(&delays, now - c->stamp_ns);
    else
        add_sample(&first_chunks, now - c->due_ns);
}

static void scan_content(void *owner, const char *bytes, size_t length)
{
    connection *c = owner;
    for (const char *end = bytes + length; bytes < end;) {
        if (!c->digits_left) {
            const char *mark = memchr(bytes, MARK, (size_t)(end - bytes));
            if (!mark)
                return;
            bytes = mark + 1;
            c->digits_left = STAMP_DIGITS;
            c->stamp_ns = 0;
            continue;
        }
        c->stamp_ns = c->stamp_ns * 10 + (uint64_t)(*bytes++ - '0');
        if (--c->digits_left == 0)
            note_chunk(c);
    }
}

static void on_closed(connection *c)
{
    if (!c->busy) {
        redial(c);
        return;
    }
    c->answer.stage = c->answer.stage == AT_CLOSE ? AT_END : AT_ERROR;
    c->answer.keep_alive = false;
    finish(c);
}

static void on_readable(connection *c)
{
    static char bytes[READ_BYTES];
    ssize_t length = read(c->descriptor, bytes, sizeof bytes);
    now = now_ns();
    if (length <= 0) {
        on_closed(c);
        return;
    }
    if (!c->busy)
        return;
    message_feed(&c->answer, bytes, (size_t)length, chunks_expected ? scan_content : NULL, c);
    if (c->answer.stage >= AT_END)
        finish(c);
}

/* Arrivals */

static uint64_t next_due;

static uint64_t until_next(void)
{
    return (uint64_t)(-log(1 - drand48()) / rate * 1e9);
}

static connection *idle_connection(void)
{
    static int last;
    for (int i = 0; i < connections; i++) {
        last = (last + 1) % connections;
        if (!all[last].busy)
            return &all[last];
    }
    return NULL;
}

/* Starts what is due; a request for which no connection is idle waits and its latency tells. */
static void start_due(void)
{
    while (next_due <= now && next_due < end_ns) {
        connection *c = idle_connection();
        if (!c)
            return;
        start(c, next_due);
        next_due += until_next();
    }
}

static bool all_done(void)
{
    if (started > finished)
        return false;
    return rate > 0 ? next_due >= end_ns : !more_to_start();
}

static void run(void)
{
    struct epoll_event events[MAX_EVENTS];
    now = begin_ns = now_ns();
    end_ns = begin_ns + (uint64_t)(seconds * 1e9);
    next_due = rate > 0 ? begin_ns + until_next() : 0;
    for (int i = 0; i < connections && rate <= 0 && more_to_start(); i++)
        start(&all[i], now);
    uint64_t give_up_ns = end_ns + (uint64_t)(patience_s * 1e9);
    while (!all_done() && now < give_up_ns) {
        if (rate > 0)
            start_due();
        uint64_t wake = rate > 0 && next_due > now && next_due < end_ns ? next_due : now + 50000000u;
        int ready = wait_for(epoll_descriptor, events, wake);
        now = now_ns();
        for (int i = 0; i < ready; i++) {
            connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT)
                send_rest(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR))
                on_readable(c);
        }
    }
    for (uint64_t i = finished; i < started; i++)
        note_error("no answer in s", (int)patience_s);
}

/* Report */

static int ascending(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static void print_samples(const char *name, samples *s)
{
    static const double ranks[] = {.5, .9, .99, .999, 1};
    static const char *const names[] = {"p50", "p90", "p99", "p999", "max"};
    if (s->count)
        qsort(s->us, s->count, sizeof *s->us, ascending);
    printf(",\"%s\":{\"count\":%zu", name, s->count);
    for (int i = 0; i < 5 && s->count; i++)
        printf(",\"%s\":%u", names[i], s->us[(size_t)(ranks[i] * (double)(s->count - 1) + .5)]);
    printf("}");
}

static void report(void)
{
    double took = (double)(now - begin_ns) / 1e9;
    printf("{\"requests\":%llu,\"errors\":%llu,\"first_error\":\"%s\",\"seconds\":%.4f,\"chunks\":%llu,"
           "\"reconnections\":%llu",
           (unsigned long long)finished, (unsigned long long)errors, first_error, took,
           (unsigned long long)chunks_seen, (unsigned long long)reconnections);
    print_samples("latency_us", &latencies);
    print_samples("ttft_us", &first_chunks);
    print_samples("chunk_delay_us", &delays);
    printf("}\n");
}

static void read_options(int count, char **arguments)
{
    static const struct option options[] = {
        {"port", required_argument, 0, 'p'},     {"bodies", required_argument, 0, 'b'},
        {"connections", required_argument, 0, 'c'}, {"seconds", required_argument, 0, 's'},
        {"requests", required_argument, 0, 'n'}, {"rate", required_argument, 0, 'r'},
        {"chunks", required_argument, 0, 'k'},   {"path", required_argument, 0, 'u'},
        {"patience", required_argument, 0, 't'}, {0}};
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        switch (option) {
        case 'p': port = atoi(optarg); break;
        case 'b': bodies_path = optarg; break;
        case 'c': connections = atoi(optarg); break;
        case 's': seconds = atof(optarg); break;
        case 'n': requests = atol(optarg); break;
        case 'r': rate = atof(optarg); break;
        case 'k': chunks_expected = atoi(optarg); break;
        case 'u': path = optarg; break;
        case 't': patience_s = atof(optarg); break;
        default: exit(2);
        }
    }
    if (!bodies_path || connections < 1) {
        fprintf(stderr, "--bodies FILE and --connections of at least 1 are needed\n");
        exit(2);
    }
}

int main(int count, char **arguments)
{
    read_options(count, arguments);
    signal(SIGPIPE, SIG_IGN);
    srand48(42);
    serial = now_ns() / 1000; /* no two runs send the same prompts */
    read_bodies();
    epoll_descriptor = epoll_create1(EPOLL_CLOEXEC);
    all = must(calloc((size_t)connections, sizeof *all));
    for (int i = 0; i < connections; i++)
        dial(&all[i]);
    run();
    report();
    return 0;
}
