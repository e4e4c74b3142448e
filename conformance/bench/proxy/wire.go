package proxy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/xds/resource"
)

type raw struct{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	pieces, ok := v.([][]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not bytes", v)
	}
	out := make(mem.BufferSlice, len(pieces))
	for i, p := range pieces {
		out[i] = mem.SliceBuffer(p)
	}
	return out, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is not bytes", v)
	}
	n := data.Len()
	*b = slices.Grow((*b)[:0], n)[:n] // b is reused: the proxy reads one message at a time
	data.CopyTo(*b)
	return nil
}

func (raw) Name() string { return "proto" }

// Item is a resource of a response, whose next one invalidates Body.
type Item struct {
	Name, Version string
	Body          []byte // the Any's value
}

// Response is one DeltaDiscoveryResponse.
type Response struct {
	URL     string
	Nonce   string
	Items   []Item
	Removed []string
	Size    int       // bytes of the message
	At      time.Time // when the last byte arrived
}

// Protobuf field numbers of DeltaDiscoveryResponse, Resource, Any and DeltaDiscoveryRequest.
const (
	responseResources, responseURL, responseNonce, responseRemoved = 2, 4, 5, 6
	itemVersion, itemAny, itemName                                 = 1, 2, 3
	anyValue                                                       = 2
	requestNode, requestURL, requestSubscribe                      = 1, 2, 3
	requestInitial, requestNonce                                   = 5, 6
)

func fields(b []byte, see func(n protowire.Number, v []byte)) error {
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		if typ != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		v, n := protowire.ConsumeBytes(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		see(num, v)
		b = b[n:]
	}
	return nil
}

func parseResponse(b []byte) (Response, error) {
	r := Response{Size: len(b)}
	var inner error
	err := fields(b, func(n protowire.Number, v []byte) {
		switch n {
		case responseURL:
			r.URL = string(v)
		case responseNonce:
			r.Nonce = string(v)
		case responseRemoved:
			r.Removed = append(r.Removed, string(v))
		case responseResources:
			item, err := parseItem(v)
			if err != nil {
				inner = err
			}
			r.Items = append(r.Items, item)
		}
	})
	if err == nil {
		err = inner
	}
	return r, err
}

func parseItem(b []byte) (item Item, err error) {
	var body []byte
	err = fields(b, func(n protowire.Number, v []byte) {
		switch n {
		case itemName:
			item.Name = string(v)
		case itemVersion:
			item.Version = string(v)
		case itemAny:
			body = v
		}
	})
	if err != nil {
		return item, err
	}
	return item, fields(body, func(n protowire.Number, v []byte) {
		if n == anyValue {
			item.Body = v
		}
	})
}

func request(url string) []byte { return appendString(nil, requestURL, url) }

func appendString(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendInitial(b []byte, name, version string) []byte {
	entry := appendString(appendString(nil, 1, name), 2, version)
	return protowire.AppendBytes(protowire.AppendTag(b, requestInitial, protowire.BytesType), entry)
}

func namedBy(body []byte) (names map[resource.Type][]string, err error) {
	names = map[resource.Type][]string{}
	l := &listenerv3.Listener{}
	if err := proto.Unmarshal(body, l); err != nil {
		return nil, err
	}
	for _, chain := range l.GetFilterChains() {
		for _, filter := range chain.GetFilters() {
			hcm := &hcmv3.HttpConnectionManager{}
			if filter.GetTypedConfig().MessageIs(hcm) {
				if err := filter.GetTypedConfig().UnmarshalTo(hcm); err != nil {
					return nil, err
				}
				if name := hcm.GetRds().GetRouteConfigName(); name != "" {
					names[resource.RouteConfiguration] = append(names[resource.RouteConfiguration], name)
				}
			}
		}
		tls := &tlsv3.DownstreamTlsContext{}
		if socket := chain.GetTransportSocket().GetTypedConfig(); strings.HasSuffix(socket.GetTypeUrl(),
			"DownstreamTlsContext") {
			if err := socket.UnmarshalTo(tls); err != nil {
				return nil, err
			}
			for _, s := range tls.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs() {
				names[resource.Secret] = append(names[resource.Secret], s.GetName())
			}
		}
	}
	return names, nil
}
