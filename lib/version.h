/*
 * The version that conf/version.sh derives from git: "0.1.0", or between two releases
 * "0.1.0+12.g0123456789ab". Each program links its own object with the version, so a new commit
 * recompiles nothing else. Tests link only the archives and have the version "unversioned".
 */
#ifndef LIB_VERSION_H
#define LIB_VERSION_H

extern const char suite_version[];

#endif
