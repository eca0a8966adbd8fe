/* The HTTP server under test and its client, which take turns in one thread. An assertion fails
 * where either does not do what is asked of it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/http.h"

extern struct http *http;   /* set by start(), NULL after stop() */
extern char reply[1 << 20]; /* what receive(), ask_raw() and ask() read last */

/* Starts `http` on 127.0.0.1, or c->address, at a port of its own. */
void start(const struct http_config *c);

/* Stops it: the teardown of a test. Returns 0. */
int stop(void **state);

/* A connection to `http`. The caller closes it. */
int dial(const char *address);

/* One turn of a program's loop: waits for the server's descriptor, its timeout, or input on `fd`,
 * and runs the server. */
void turn(int fd, int at_most_ms);

/* Milliseconds of CLOCK_MONOTONIC. */
int64_t now_ms(void);

/* Reads into `reply` until the server closes, or `until` has arrived; false after five seconds. */
bool receive(int fd, const char *until);

/* Sends `request` as it is on a connection of its own and reads until the server closes it. Returns
 * `reply`. */
const char *ask_raw(const char *address, const char *request);

/* The same for a method, a path and more header lines, asked of 127.0.0.1. */
const char *ask(const char *method_and_path, const char *headers);

/* The status code of `reply`, or -1; its body. */
int status(void);
const char *body(void);
