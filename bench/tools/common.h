/* What the model servers and the load generator share: clock, sockets, epoll, output, HTTP/1.1 framing. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#define _GNU_SOURCE
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

/* A chunk's content is MARK and then the time it was sent, in ns of the monotonic clock, in so many digits. */
#define MARK '~'
#define STAMP_DIGITS 20

#define MAX_EVENTS 512
#define READ_BYTES (256 * 1024)
#define MAX_HEAD_BYTES (16 * 1024)

uint64_t now_ns(void);
void fail(const char *what) __attribute__((noreturn));
void *must(void *allocated);

int listen_on(int port);
int connect_to(int port);
void set_up_stream(int descriptor);
/* Adds the descriptor or changes what is waited for. */
void watch(int epoll, int operation, int descriptor, bool writable, void *owner);
/* Waits up to `until_ns` (0: for ever) with the resolution of the clock. */
int wait_for(int epoll, struct epoll_event *events, uint64_t until_ns);

/* Bytes on their way out. */
typedef struct {
    char *bytes;
    size_t sent, length, capacity;
} output;

void output_add(output *out, const void *bytes, size_t length);
void output_clear(output *out);
/* Writes what the socket takes: 1 everything, 0 some is left, -1 the connection is broken. */
int output_flush(output *out, int descriptor);

/* One message as it comes in. Its content is not kept. */
typedef enum {
    AT_HEAD,
    AT_CONTENT,    /* of a known length */
    AT_CHUNK_SIZE, /* of the chunked coding */
    AT_CHUNK,
    AT_CHUNK_END,
    AT_TRAILER,
    AT_CLOSE, /* content that ends with the connection */
    AT_END,
    AT_ERROR
} stage;

typedef struct {
    stage stage;
    bool response;
    bool keep_alive;
    bool extension;  /* of the size of a chunk: what follows a semicolon */
    int status;      /* of a response */
    size_t head_bytes;
    uint64_t left;   /* bytes of the content or chunk that are to come */
    size_t line_bytes;
    uint64_t content_bytes;
    char head[MAX_HEAD_BYTES + 1];
} message;

typedef void content_handler(void *owner, const char *bytes, size_t length);

void message_begin(message *m, bool response);
/* Takes bytes until the message ends or breaks; the number taken. */
size_t message_feed(message *m, const char *bytes, size_t length, content_handler *handler, void *owner);
/* The value of a header (the name in lower case), to be read up to its CR; NULL if there is none. */
const char *message_header(const message *m, const char *name);

#endif
