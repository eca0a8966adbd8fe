/* Keeps a function out of its caller, so that the caller's stack frame does not grow. */
#ifndef LIB_OWN_FRAME_H
#define LIB_OWN_FRAME_H

/* For a function that has a large local array, or that few queries reach. If the compiler inlined
 * it, every query that reaches the caller would touch the larger frame and save more registers. */
#define OWN_FRAME __attribute__((noinline))

#endif
