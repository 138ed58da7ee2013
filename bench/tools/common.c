#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

void *must(void *allocated)
{
    if (!allocated)
        fail("memory");
    return allocated;
}

/* Sockets */

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

void set_up_stream(int descriptor)
{
    int on = 1;
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
}

int listen_on(int port)
{
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in address = loopback(port);
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (descriptor < 0 || bind(descriptor, (void *)&address, sizeof address) || listen(descriptor, 4096)) {
        fprintf(stderr, "port %d: ", port);
        fail("listen");
    }
    return descriptor;
}

int connect_to(int port)
{
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = loopback(port);
    if (descriptor < 0)
        fail("socket");
    if (connect(descriptor, (void *)&address, sizeof address)) {
        close(descriptor);
        return -1;
    }
    set_up_stream(descriptor);
    return descriptor;
}

void watch(int epoll, int operation, int descriptor, bool writable, void *owner)
{
    struct epoll_event event = {.events = EPOLLIN | (writable ? EPOLLOUT : 0), .data.ptr = owner};
    if (epoll_ctl(epoll, operation, descriptor, &event))
        fail("epoll_ctl");
}

int wait_for(int epoll, struct epoll_event *events, uint64_t until_ns)
{
    uint64_t now = until_ns ? now_ns() : 0;
    uint64_t left = until_ns > now ? until_ns - now : 0;
    struct timespec timeout = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
    int ready = epoll_pwait2(epoll, events, MAX_EVENTS, until_ns ? &timeout : NULL, NULL);
    if (ready < 0 && errno != EINTR)
        fail("epoll_pwait2");
    return ready < 0 ? 0 : ready;
}

/* Output */

void output_add(output *out, const void *bytes, size_t length)
{
    if (out->length + length > out->capacity) {
        out->capacity = (out->length + length) * 2;
        out->bytes = must(realloc(out->bytes, out->capacity));
    }
    memcpy(out->bytes + out->length, bytes, length);
    out->length += length;
}

void output_clear(output *out)
{
    out->sent = out->length = 0;
}

int output_flush(output *out, int descriptor)
{
    while (out->sent < out->length) {
        ssize_t written = write(descriptor, out->bytes + out->sent, out->length - out->sent);
        if (written < 0)
            return errno == EAGAIN ? 0 : -1;
        out->sent += (size_t)written;
    }
    output_clear(out);
    return 1;
}

/* Framing */

void message_begin(message *m, bool response)
{
    m->stage = AT_HEAD;
    m->response = response;
    m->keep_alive = true;
    m->extension = false;
    m->status = 0;
    m->head_bytes = m->line_bytes = 0;
    m->left = m->content_bytes = 0;
}

const char *message_header(const message *m, const char *name)
{
    size_t length = strlen(name);
    for (const char *line = strstr(m->head, "\r\n"); line; line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " \t");
    }
    return NULL;
}

static bool header_is(const message *m, const char *name, const char *value)
{
    const char *found = message_header(m, name);
    return found && strncasecmp(found, value, strlen(value)) == 0;
}

static stage after_head(message *m)
{
    const char *length = message_header(m, "content-length");
    m->keep_alive = !header_is(m, "connection", "close");
    m->status = m->response ? atoi(m->head + strcspn(m->head, " ")) : 0;
    if (header_is(m, "transfer-encoding", "chunked"))
        return AT_CHUNK_SIZE;
    if (!length)
        return m->response ? AT_CLOSE : AT_END;
    m->left = strtoull(length, NULL, 10);
    return m->left ? AT_CONTENT : AT_END;
}

static size_t feed_head(message *m, const char *bytes, size_t length)
{
    size_t before = m->head_bytes, room = MAX_HEAD_BYTES - before;
    size_t taken = length < room ? length : room;
    memcpy(m->head + before, bytes, taken);
    size_t from = before > 3 ? before - 3 : 0;
    char *end = memmem(m->head + from, before + taken - from, "\r\n\r\n", 4);
    m->head_bytes = end ? (size_t)(end - m->head) + 4 : before + taken;
    m->head[m->head_bytes] = 0;
    if (end)
        m->stage = after_head(m);
    else if (m->head_bytes == MAX_HEAD_BYTES)
        m->stage = AT_ERROR;
    return m->head_bytes - before;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of a line that frames chunks: size, the empty line after a chunk, trailer. */
static stage line_byte(message *m, char c)
{
    m->line_bytes++;
    m->extension |= c == ';';
    if (m->stage == AT_TRAILER || (m->stage == AT_CHUNK_SIZE && m->extension))
        return m->stage;
    int digit = hex_digit(c);
    if (m->stage == AT_CHUNK_END || digit < 0)
        return AT_ERROR;
    m->left = m->left * 16 + (unsigned)digit;
    return m->stage;
}

static stage frame_byte(message *m, char c)
{
    if (c == '\r')
        return m->stage;
    if (c != '\n')
        return line_byte(m, c);
    bool empty = m->line_bytes == 0;
    m->line_bytes = 0;
    m->extension = false;
    if (m->stage == AT_CHUNK_END)
        return AT_CHUNK_SIZE;
    if (m->stage == AT_TRAILER)
        return empty ? AT_END : AT_TRAILER;
    if (empty)
        return AT_ERROR;
    return m->left ? AT_CHUNK : AT_TRAILER;
}

static size_t feed_content(message *m, const char *bytes, size_t length, content_handler *handler, void *owner)
{
    size_t taken = m->stage == AT_CLOSE || length < m->left ? length : (size_t)m->left;
    m->content_bytes += taken;
    if (handler)
        handler(owner, bytes, taken);
    if (m->stage == AT_CLOSE)
        return taken;
    m->left -= taken;
    if (!m->left)
        m->stage = m->stage == AT_CONTENT ? AT_END : AT_CHUNK_END;
    return taken;
}

size_t message_feed(message *m, const char *bytes, size_t length, content_handler *handler, void *owner)
{
    size_t taken = 0;
    while (taken < length && m->stage < AT_END) {
        if (m->stage == AT_HEAD)
            taken += feed_head(m, bytes + taken, length - taken);
        else if (m->stage == AT_CONTENT || m->stage == AT_CHUNK || m->stage == AT_CLOSE)
            taken += feed_content(m, bytes + taken, length - taken, handler, owner);
        else
            m->stage = frame_byte(m, bytes[taken++]);
    }
    return taken;
}
