package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
)

const slowDown = `<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`

// listen serves one address: the gateway, or 503 for as long as the fault file exists.
func listen(address, fault string) error {
	proxy := &httputil.ReverseProxy{Rewrite: keepSigned, Transport: toGateway()}
	return http.ListenAndServe(address, http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if _, err := os.Stat(fault); err == nil {
			answer.Header().Set("Content-Type", "application/xml")
			answer.WriteHeader(http.StatusServiceUnavailable)
			_, _ = answer.Write([]byte(slowDown))
			return
		}
		proxy.ServeHTTP(answer, request)
	}))
}

// keepSigned leaves host, path and query as they came: the signature covers them.
func keepSigned(request *httputil.ProxyRequest) {
	request.Out.URL.Scheme = "http"
	request.Out.URL.Host = "gateway"
	request.Out.Host = request.In.Host
}

func toGateway() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", gatewaySocket)
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 256,
	}
}
