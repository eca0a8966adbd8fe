/* --explain: the command asks the kubedns that runs, whose main thread knows the objects. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "kubedns/show/explain.h"
#include "lib/log.h"
#include "lib/percent.h"
#include "lib/xalloc.h"

int
explain_ask(const char *name, const char *address, long port)
{
	CURL *curl = curl_easy_init();
	bool any = strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
	long status = 0;

	if (curl == NULL)
		return -ENOMEM;
	char *escaped = percent_encode(name);
	char *url =
	    xasprintf("http://%s:%ld/explain?name=%s", any ? "127.0.0.1" : address, port, escaped);
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 5000L);
	CURLcode code = curl_easy_perform(curl); /* prints on stdout */
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (code != CURLE_OK)
		log_errorx("--explain: %s: %s; is kubedns running, with --healthz-port=%ld?", url,
		    curl_easy_strerror(code), port);
	else if (status != 200)
		log_errorx("--explain: %s answered %ld", url, status);
	free(url);
	free(escaped);
	curl_easy_cleanup(curl);
	return code == CURLE_OK && status == 200 ? 0 : -EIO;
}
