#include "kubedns/show/explain_search.h"

#include "kubedns/answer/search.h"

static void
say_step(void *arg, enum search_step step, const struct dname *candidate)
{
	static const char *const words[] = {
		[SEARCH_STEP_NOTHING] = "does not exist",
		[SEARCH_STEP_DENIED] = "does not exist",
		[SEARCH_STEP_TOO_LONG] = "",
		[SEARCH_STEP_FOUND] = "exists: this is what the name means",
		[SEARCH_STEP_OUTSIDE] = "is asked of other servers, and taken if it exists there",
	};
	char text[DNAME_TEXT_MAX];

	if (step == SEARCH_STEP_TOO_LONG)
		fprintf(arg, "  one step's name would be longer than 255 bytes: left out\n");
	else
		fprintf(arg, "  %s %s\n", dname_to_text(candidate->wire, text), words[step]);
}

static void
say_refusal(FILE *out, enum search_refusal refusal)
{
	static const char *const words[SEARCH_REFUSALS] = {
		[SEARCH_TYPE] = "only A and AAAA are",
		[SEARCH_ONE_LABEL] = "what is before the namespace has no dot",
		[SEARCH_UNDERSCORE] = "a label begins with '_'",
		[SEARCH_NO_NAMESPACE] = "the namespace does not exist",
		[SEARCH_OPTED_OUT] = "the namespace has the label kubedns/search-completion=off",
		[SEARCH_SERVICE] = "it is below a Service of the namespace",
		[SEARCH_FALLS_THROUGH] = "--fallthrough leaves it to other servers",
		[SEARCH_NO_RESOLVER] = "nobody can be asked for outside names",
	};

	fprintf(out, "Search completion leaves it alone: %s.\n", words[refusal]);
}

bool
explain_search(FILE *out, const struct answer_config *config, const struct tree *tree,
    const struct name *name, unsigned below)
{
	enum search_refusal refusal;

	if (!search_may_complete(config, name, below))
		return false;
	if (below < 3 && search_is_declared(name, below)) {
		fprintf(out, "It has no records (NODATA); search lists are walked below it, for "
			     "X.NAMESPACE.s.\n");
		return true;
	}
	switch (search_form(config, tree, name, below, TYPE_A, &refusal)) {
	case SEARCH_DECLARED:
		fprintf(out, "Search completion, declared by the name: the first that exists "
			     "answers.\n");
		break;
	case SEARCH_INFERRED:
		fprintf(out,
		    "It does not exist itself. Search completion, inferred for A and AAAA: "
		    "the first that exists answers, else NXDOMAIN.\n");
		break;
	case SEARCH_REFUSED:
		say_refusal(out, refusal);
		return false;
	case SEARCH_NONE:
	case SEARCH_FORMS:
		return false;
	}
	search_steps(config, tree, name, below, say_step, out);
	return true;
}
