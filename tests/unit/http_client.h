/* The HTTP server under test and its client. They run in turns in one thread. An assertion fails if
 * the server or the client does not do its part. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lib/http.h"

extern struct http *http;   /* set by start(), NULL after stop() */
extern char reply[1 << 20]; /* the last data read by receive(), ask_raw() or ask() */

/* Starts `http` on 127.0.0.1, or on c->address, at a free port. */
void start(const struct http_config *c);

/* Stops `http`. Used as the teardown of a test. Returns 0. */
int stop(void **state);

/* Opens a connection to `http`. The caller closes it. */
int dial(const char *address);

/* Runs one iteration of a program's loop. It waits for the descriptor of the server, its timeout,
 * or input on `fd`, and then runs the server. */
void iterate(int fd, int at_most_ms);

/* Returns the time of CLOCK_MONOTONIC, in milliseconds. */
int64_t now_ms(void);

/* Reads into `reply` until the server closes the connection or `until` has arrived. Returns false
 * after five seconds. */
bool receive(int fd, const char *until);

/* Sends `request` unchanged on a new connection and reads until the server closes it. Returns
 * `reply`. */
const char *ask_raw(const char *address, const char *request);

/* Like ask_raw(), with a method, a path and additional header lines. The client is at 127.0.0.1. */
const char *ask(const char *method_and_path, const char *headers);

/* status() returns the status code of `reply`, or -1. body() returns the body of `reply`. */
int status(void);
const char *body(void);
