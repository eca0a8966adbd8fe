// A program in a pod that looks names up one after the other with Go's own resolver. Arguments and output are those of client.c.
package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		os.Exit(2)
	}
	count, _ := strconv.Atoi(os.Args[1])
	pause := 0
	if len(os.Args) > 3 {
		pause, _ = strconv.Atoi(os.Args[3])
	}
	resolver := net.Resolver{PreferGo: true}
	var out struct {
		Found int     `json:"found"`
		US    []int64 `json:"us"`
	}
	for i := 0; i < count; i++ {
		begun := time.Now()
		addresses, _ := resolver.LookupIPAddr(context.Background(), os.Args[2])
		out.US = append(out.US, time.Since(begun).Microseconds())
		for _, address := range addresses {
			if address.IP.To4() != nil {
				out.Found++
				break
			}
		}
		time.Sleep(time.Duration(pause) * time.Microsecond)
	}
	json.NewEncoder(os.Stdout).Encode(out)
}
