# The stage is on the path of a query.
search_QUERY_PATH := search_stage.o
