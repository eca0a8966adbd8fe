/* Keeps a function out of its caller, so that the caller's stack frame does not grow. */
#ifndef LIB_OWN_FRAME_H
#define LIB_OWN_FRAME_H

/*
 * For a function with a large local array, or one that few queries reach. If the compiler inlines it, every
 * query that passes the caller touches the larger frame and saves more registers.
 */
#define OWN_FRAME __attribute__((noinline))

#endif
