package envoy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/translator/certificates"
	"github.com/penstock-project/penstock/xds/resource"
)

func (b *builder) resource(t resource.Type, name string, msg proto.Message, owners []report.Ref) (*resource.Resource,
	error) {
	if b.err != nil {
		return nil, b.err
	}
	return checked(t, name, msg, b.refs, owners)
}

func checked(t resource.Type, name string, msg proto.Message, refs []resource.Ref,
	owners []report.Ref) (*resource.Resource, error) {
	if err := checkMessage(msg); err != nil {
		return nil, fmt.Errorf("%s %s: %w", t, name, err)
	}
	return resource.New(t, name, msg, refs, owners)
}

// checkMessage rejects messages that Envoy would reject, so a NACK means a bug in Penstock.
func checkMessage(msg proto.Message) error {
	if v, ok := msg.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	return walk(msg.ProtoReflect(), checkOne)
}

func walk(m protoreflect.Message, visit func(proto.Message) error) error {
	msg := m.Interface()
	if _, ok := msg.(*structpb.Struct); ok {
		return nil
	}
	if err := visit(msg); err != nil {
		return err
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					err = walk(v.Message(), visit)
					return err == nil
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = walk(v.List().Get(i).Message(), visit)
			}
		default:
			err = walk(v.Message(), visit)
		}
		return err == nil
	})
	return err
}

func checkOne(msg proto.Message) error {
	switch m := msg.(type) {
	case *anypb.Any:
		inner, err := m.UnmarshalNew()
		if err != nil {
			return fmt.Errorf("%s: %w", m.TypeUrl, err)
		}
		return checkMessage(inner)
	case *matcherv3.RegexMatcher:
		return CheckRegex(m.Regex)
	case *routev3.WeightedCluster:
		return checkWeights(m)
	case *routev3.Route:
		return errors.Join(checkHeaders(m.RequestHeadersToAdd, m.RequestHeadersToRemove),
			checkHeaders(m.ResponseHeadersToAdd, m.ResponseHeadersToRemove))
	case *routev3.WeightedCluster_ClusterWeight:
		return errors.Join(checkHeaders(m.RequestHeadersToAdd, m.RequestHeadersToRemove),
			checkHeaders(m.ResponseHeadersToAdd, m.ResponseHeadersToRemove))
	case *corev3.SocketAddress:
		if ip, err := netip.ParseAddr(m.Address); err != nil || ip.Zone() != "" {
			return fmt.Errorf("%q is not an IP address", m.Address)
		}
	case *tlsv3.TlsCertificate:
		if _, err := certificates.ReadPair(m.CertificateChain.GetInlineBytes(),
			m.PrivateKey.GetInlineBytes()); err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
	case *listenerv3.Listener:
		return checkChains(m)
	}
	return nil
}

func checkWeights(w *routev3.WeightedCluster) error {
	var sum uint64
	for _, c := range w.Clusters {
		sum += uint64(c.Weight.GetValue())
	}
	if sum == 0 || sum > 1<<32-1 {
		return fmt.Errorf("the weights of a route add up to %d, which is not in 1 to 2^32-1", sum)
	}
	return nil
}

func checkHeaders(add []*corev3.HeaderValueOption, remove []string) error {
	names := remove
	for _, h := range add {
		names = append(names[:len(names):len(names)], h.Header.GetKey())
	}
	for _, n := range names {
		if n == "" || strings.HasPrefix(n, ":") || strings.EqualFold(n, "host") {
			return fmt.Errorf("header %q cannot be added, set or removed", n)
		}
	}
	return nil
}

func checkChains(l *listenerv3.Listener) error {
	names, matches := map[string]bool{}, map[string]string{}
	for _, c := range l.FilterChains {
		if names[c.Name] {
			return fmt.Errorf("two filter chains are named %s", c.Name)
		}
		names[c.Name] = true
		key, err := resource.Marshal(c.FilterChainMatch)
		if err != nil {
			return err
		}
		if other, ok := matches[string(key)]; ok {
			return fmt.Errorf("filter chains %s and %s match the same connections", other, c.Name)
		}
		matches[string(key)] = c.Name
	}
	return nil
}
