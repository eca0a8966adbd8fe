/*
 * The suite's version, as conf/version.sh makes it of git: "0.1.0", or between two versions
 * "0.1.0+12.g0123456789ab". A program is linked with an object of its own for it, so that a commit
 * compiles nothing else again; what is linked with the archives alone (tests) has "unversioned".
 */
#ifndef LIB_VERSION_H
#define LIB_VERSION_H

extern const char suite_version[];

#endif
