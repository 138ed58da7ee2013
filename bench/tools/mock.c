/* Model servers that answer at once: one thread, one epoll, N ports from a first one.
 *
 *     mock --port 18100 --endpoints 4 [--metrics page.txt] [--model m]
 *
 * A chat completion is answered as `GET /control?chunks=N&interval_us=N` said last: chunks=0, the default, with
 * one JSON body; else with a stream of server-sent events, the first chunk at once, the second at a random part of
 * the interval after it, the others an interval apart. A chunk's content is the time of its writing. Each chunk is
 * one write. Other completions are always one JSON body. `GET /metrics` gives the page, `GET /v1/models` the
 * model, `GET /stats` counts of what came.
 */
#include "common.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_PORTS 1024
#define BYTES_A_TOKEN 4

typedef struct connection {
    int descriptor;
    int port_index; /* of a listener: of the port; of a connection: where it came in */
    bool listener, blocked, closed;
    message request;
    output out;
    long prompt_tokens;
    int chunks_left; /* of the stream that is being sent; 0: none */
    uint64_t due_ns;
    size_t place; /* in the heap of streams, from 1; 0: not there */
    struct connection *next_closed;
} connection;

static int epoll_descriptor, first_port = 18100, endpoints = 4, chunks, interval_us;
static const char *model = "m";
static char *metrics = "";
static size_t metrics_bytes;
static uint64_t served[MAX_PORTS], scrapes, others;
static connection *closed_ones;

/* Streams by the time of their next chunk: a binary heap, its root at 1. */

static connection **heap;
static size_t heap_size, heap_capacity;

static void heap_put(size_t place, connection *c)
{
    heap[place] = c;
    c->place = place;
}

static void heap_up(size_t place, connection *c)
{
    for (; place > 1 && heap[place / 2]->due_ns > c->due_ns; place /= 2)
        heap_put(place, heap[place / 2]);
    heap_put(place, c);
}

static void heap_down(size_t place, connection *c)
{
    for (size_t child; (child = place * 2) <= heap_size; place = child) {
        if (child < heap_size && heap[child + 1]->due_ns < heap[child]->due_ns)
            child++;
        if (heap[child]->due_ns >= c->due_ns)
            break;
        heap_put(place, heap[child]);
    }
    heap_put(place, c);
}

static void heap_add(connection *c)
{
    if (heap_size + 2 > heap_capacity) {
        heap_capacity = heap_capacity ? heap_capacity * 2 : 1024;
        heap = must(realloc(heap, heap_capacity * sizeof *heap));
    }
    heap_up(++heap_size, c);
}

static void heap_remove(connection *c)
{
    size_t place = c->place;
    connection *last = heap[heap_size--];
    c->place = 0;
    if (last == c)
        return;
    heap_down(place, last);
    heap_up(last->place, last);
}

/* Answers */

static void drop(connection *c)
{
    if (c->closed)
        return;
    if (c->place)
        heap_remove(c);
    close(c->descriptor);
    c->closed = true;
    c->next_closed = closed_ones; /* events of this round may still name it */
    closed_ones = c;
}

static void flush(connection *c)
{
    int done = output_flush(&c->out, c->descriptor);
    if (done < 0) {
        drop(c);
    } else if (c->blocked != (done == 0)) {
        c->blocked = done == 0;
        watch(epoll_descriptor, EPOLL_CTL_MOD, c->descriptor, c->blocked, c);
    }
}

static void answer(connection *c, const char *status, const char *type, const char *body, size_t length)
{
    char head[256];
    int bytes = snprintf(head, sizeof head,
                         "HTTP/1.1 %s\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
                         "content-length: %zu\r\ncontent-type: %s\r\n\r\n",
                         status, length, type);
    output_add(&c->out, head, (size_t)bytes);
    output_add(&c->out, body, length);
    flush(c);
}

static void answer_json(connection *c, const char *status, const char *body)
{
    answer(c, status, "application/json", body, strlen(body));
}

static void answer_completion(connection *c)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-3f0c1f6e2b9a4c53a1b8d7e6f5a4b3c2\",\"object\":\"chat.completion\","
             "\"created\":1796041452,\"model\":\"%s\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
             "\"content\":\"Prefix caches answer again what they have answered before.\"},\"logprobs\":null,"
             "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,"
             "\"completion_tokens\":12,\"prompt_tokens_details\":{\"cached_tokens\":%ld}},\"prompt_logprobs\":null}",
             model, c->prompt_tokens, c->prompt_tokens + 12, c->prompt_tokens / 2);
    answer_json(c, "200 OK", body);
}

/* One event in one chunk of the chunked coding. */
static void add_event(connection *c, const char *data)
{
    char frame[1024];
    size_t length = strlen(data) + strlen("data: \n\n");
    int bytes = snprintf(frame, sizeof frame, "%zx\r\ndata: %s\n\n\r\n", length, data);
    output_add(&c->out, frame, (size_t)bytes);
}

static void add_usage(connection *c)
{
    char data[512];
    snprintf(data, sizeof data,
             "{\"id\":\"chatcmpl-97735babb735d858\",\"object\":\"chat.completion.chunk\",\"created\":1796041452,"
             "\"model\":\"%s\",\"choices\":[],\"usage\":{\"prompt_tokens\":%ld,\"total_tokens\":%ld,"
             "\"completion_tokens\":64,\"prompt_tokens_details\":{\"cached_tokens\":%ld}}}",
             model, c->prompt_tokens, c->prompt_tokens + 64, c->prompt_tokens / 2);
    add_event(c, data);
}

static void send_chunk(connection *c)
{
    char data[512];
    snprintf(data, sizeof data,
             "{\"id\":\"chatcmpl-97735babb735d858\",\"object\":\"chat.completion.chunk\",\"created\":1796041452,"
             "\"model\":\"%s\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%c%0*llu\"},\"logprobs\":null,"
             "\"finish_reason\":null,\"token_ids\":null}]}",
             model, MARK, STAMP_DIGITS, (unsigned long long)now_ns());
    add_event(c, data);
    if (--c->chunks_left == 0) {
        add_usage(c);
        add_event(c, "[DONE]");
        output_add(&c->out, "0\r\n\r\n", 5);
    }
    flush(c);
}

static void begin_stream(connection *c)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 10:00:00 GMT\r\nserver: uvicorn\r\n"
        "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    output_add(&c->out, head, sizeof head - 1);
    flush(c);
    c->chunks_left = chunks;
    if (!c->closed)
        send_chunk(c);
    if (c->closed || !c->chunks_left)
        return;
    c->due_ns = now_ns() + (uint64_t)(drand48() * interval_us * 1e3);
    heap_add(c);
}

static void answer_stats(connection *c)
{
    char *body = must(malloc(128 + 24 * (size_t)endpoints));
    int length = sprintf(body, "{\"scrapes\":%llu,\"others\":%llu,\"served\":[", (unsigned long long)scrapes,
                         (unsigned long long)others);
    for (int i = 0; i < endpoints; i++)
        length += sprintf(body + length, "%s%llu", i ? "," : "", (unsigned long long)served[i]);
    sprintf(body + length, "]}");
    answer_json(c, "200 OK", body);
    free(body);
}

static void answer_models(connection *c)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"object\":\"list\",\"data\":[{\"id\":\"%s\",\"object\":\"model\",\"created\":1796041452,"
             "\"owned_by\":\"vllm\",\"root\":\"%s\",\"parent\":null,\"max_model_len\":1048576,\"permission\":[]}]}",
             model, model);
    answer_json(c, "200 OK", body);
}

/* What SGLang's servers tell of themselves; routers that were made for them ask. */
static void answer_server_info(connection *c)
{
    char body[256];
    snprintf(body, sizeof body,
             "{\"model_path\":\"%s\",\"served_model_name\":\"%s\",\"is_generation\":true,\"tp_size\":1,\"dp_size\":1}",
             model, model);
    answer_json(c, "200 OK", body);
}

static void take_control(connection *c)
{
    const char *query = strchr(c->request.head, '?');
    if (!query || sscanf(query, "?chunks=%d&interval_us=%d", &chunks, &interval_us) != 2)
        answer_json(c, "400 Bad Request", "{\"error\":\"/control?chunks=N&interval_us=N\"}");
    else
        answer_json(c, "200 OK", "{}");
}

static bool asks(const connection *c, const char *start)
{
    return strncmp(c->request.head, start, strlen(start)) == 0;
}

static void respond(connection *c)
{
    if (asks(c, "POST /v1/chat/completions ") || asks(c, "POST /v1/completions ")) {
        served[c->port_index]++;
        c->prompt_tokens = (long)(c->request.content_bytes / BYTES_A_TOKEN);
        if (chunks && asks(c, "POST /v1/chat"))
            begin_stream(c);
        else
            answer_completion(c);
        return;
    }
    if (asks(c, "GET /metrics")) {
        scrapes++;
        answer(c, "200 OK", "text/plain; version=1.0.0; charset=utf-8", metrics, metrics_bytes);
        return;
    }
    if (asks(c, "GET /control"))
        take_control(c);
    else if (asks(c, "GET /stats"))
        answer_stats(c);
    else if (others++, asks(c, "GET /v1/models"))
        answer_models(c);
    else if (asks(c, "POST /v1/chat/completions/render "))
        answer_json(c, "200 OK", "{}"); /* of all answers the cheapest for the router that asks */
    else if (asks(c, "GET /health") || asks(c, "GET /ping"))
        answer(c, "200 OK", "text/plain", "", 0);
    else if (asks(c, "GET /get_server_info") || asks(c, "GET /server_info") || asks(c, "GET /get_model_info") ||
             asks(c, "GET /model_info"))
        answer_server_info(c);
    else
        answer_json(c, "404 Not Found", "{\"detail\":\"Not Found\"}");
}

/* Connections */

static void accept_all(connection *listener)
{
    for (;;) {
        int descriptor = accept4(listener->descriptor, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (descriptor < 0)
            return;
        set_up_stream(descriptor);
        connection *c = must(calloc(1, sizeof *c));
        c->descriptor = descriptor;
        c->port_index = listener->port_index;
        message_begin(&c->request, false);
        watch(epoll_descriptor, EPOLL_CTL_ADD, descriptor, false, c);
    }
}

static void on_readable(connection *c)
{
    static char bytes[READ_BYTES];
    ssize_t length = read(c->descriptor, bytes, sizeof bytes);
    if (length <= 0) {
        drop(c);
        return;
    }
    for (size_t taken = 0; taken < (size_t)length && !c->closed;) {
        taken += message_feed(&c->request, bytes + taken, (size_t)length - taken, NULL, NULL);
        /* A request that comes before the stream of the last one ended is a fault of the client. */
        if (c->request.stage == AT_ERROR || (c->request.stage == AT_END && c->chunks_left)) {
            drop(c);
        } else if (c->request.stage == AT_END) {
            respond(c);
            message_begin(&c->request, false);
        }
    }
}

static void on_event(connection *c, uint32_t events)
{
    if (c->closed)
        return;
    if (c->listener) {
        accept_all(c);
        return;
    }
    if (events & EPOLLOUT)
        flush(c);
    if (!c->closed && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        on_readable(c);
}

static void send_due(void)
{
    uint64_t now = now_ns();
    while (heap_size && heap[1]->due_ns <= now) {
        connection *c = heap[1];
        c->due_ns += (uint64_t)interval_us * 1000u;
        heap_down(1, c);
        send_chunk(c);
        if (c->place && !c->chunks_left)
            heap_remove(c);
    }
}

static void free_closed(void)
{
    while (closed_ones) {
        connection *c = closed_ones;
        closed_ones = c->next_closed;
        free(c->out.bytes);
        free(c);
    }
}

static char *read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    char *bytes = must(malloc(1 << 20));
    *length = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

static void read_options(int count, char **arguments)
{
    static const struct option options[] = {{"port", required_argument, 0, 'p'},
                                            {"endpoints", required_argument, 0, 'e'},
                                            {"metrics", required_argument, 0, 'm'},
                                            {"model", required_argument, 0, 'n'},
                                            {0}};
    for (int option; (option = getopt_long(count, arguments, "", options, NULL)) != -1;) {
        if (option == 'p')
            first_port = atoi(optarg);
        else if (option == 'e')
            endpoints = atoi(optarg);
        else if (option == 'm')
            metrics = read_file(optarg, &metrics_bytes);
        else if (option == 'n')
            model = optarg;
        else
            exit(2);
    }
    if (endpoints < 1 || endpoints > MAX_PORTS) {
        fprintf(stderr, "--endpoints: 1 to %d\n", MAX_PORTS);
        exit(2);
    }
}

int main(int count, char **arguments)
{
    struct epoll_event events[MAX_EVENTS];
    read_options(count, arguments);
    signal(SIGPIPE, SIG_IGN);
    epoll_descriptor = epoll_create1(EPOLL_CLOEXEC);
    connection *listeners = must(calloc((size_t)endpoints, sizeof *listeners));
    for (int i = 0; i < endpoints; i++) {
        listeners[i].descriptor = listen_on(first_port + i);
        listeners[i].port_index = i;
        listeners[i].listener = true;
        watch(epoll_descriptor, EPOLL_CTL_ADD, listeners[i].descriptor, false, &listeners[i]);
    }
    for (;;) {
        int ready = wait_for(epoll_descriptor, events, heap_size ? heap[1]->due_ns : 0);
        for (int i = 0; i < ready; i++)
            on_event(events[i].data.ptr, events[i].events);
        send_due();
        free_closed();
    }
}
