module older

go 1.26.0
