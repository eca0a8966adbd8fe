/*
 * Addresses of a family that no pod can use: AAAA of outside names in a cluster without IPv6, A in
 * one without IPv4 (--filter-aaaa, --filter-a). Such a question is answered NODATA at once, with EDE
 * 17 (Filtered, RFC 8914), in place of being asked of other servers. Pure.
 *
 * Names of our own zones are not looked at: the tree says what they have. Other types pass, HTTPS
 * records with their address hints too. So does a query with DO: its sender would find that the
 * denial has no signature.
 */
#ifndef KUBEDNS_RECORDED_ANSWERS_H
#define KUBEDNS_RECORDED_ANSWERS_H

#include "kubedns/answer/reply.h"

/*
 * Completes the reply to a query that would be asked of other servers (`outcome` FORWARD or CHASE),
 * and says so in `info`; false: it is to be asked.
 */
bool filter_answer(struct reply *reply, enum answer_outcome outcome, struct answer_info *info);

/* Whether addresses of this type (A or AAAA) are filtered for an outside name (wire, lower case). */
bool filter_holds(const struct answer_config *config, const struct answer_context *context,
    uint16_t type, const uint8_t *name);

#endif
