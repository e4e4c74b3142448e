package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/translator/model"
)

func (b *ruleBuilder) externalAuth(f *filters, spec *gatewayv1.HTTPExternalAuthFilter, field string) {
	a := &model.ExternalAuth{}
	switch {
	case spec.ExternalAuthProtocol == gatewayv1.HTTPRouteExternalAuthGRPCProtocol:
		a.GRPC = true
		if spec.GRPCAuthConfig != nil {
			a.Headers = b.headerNames(spec.GRPCAuthConfig.AllowedRequestHeaders, field+".grpc.allowedHeaders")
		}
	case spec.ExternalAuthProtocol == gatewayv1.HTTPRouteExternalAuthHTTPProtocol:
		if c := spec.HTTPAuthConfig; c != nil {
			a.Path = b.authPath(c.Path, field+".http.path")
			a.Headers = b.headerNames(c.AllowedRequestHeaders, field+".http.allowedHeaders")
			a.Copied = b.headerNames(c.AllowedResponseHeaders, field+".http.allowedResponseHeaders")
		}
	default:
		b.unsupported(field+".protocol", "protocol %q is not supported: use HTTP or GRPC", spec.ExternalAuthProtocol)
		return
	}
	if spec.ForwardBody != nil {
		a.MaxBody = uint32(spec.ForwardBody.MaxSize)
	}
	cluster, ref := b.onlyService(&spec.BackendRef, "requests cannot be authorized by", field+".backendRef")
	if f.fails = cluster.IsZero(); f.fails {
		return
	}
	a.Cluster, a.Backend = cluster, store.TargetOf(ref)
	if a.GRPC {
		a.Cluster = model.GRPCCluster(ref.Namespace, ref.Name, *spec.BackendRef.Port)
	}
	f.auth, f.clusters = a, append(f.clusters, a.Cluster)
}

// authPath drops a trailing slash, because Envoy appends the client's path.
func (b *ruleBuilder) authPath(path, field string) string {
	if path == "" {
		return ""
	}
	if !pathForm.MatchString(path) || !strings.HasPrefix(path, "/") || slices.Contains(strings.Split(path, "/"), "..") {
		b.unsupported(field, "%q is not a path that begins with /", path)
	}
	return strings.TrimRight(path, "/")
}

func (b *ruleBuilder) headerNames(list []string, field string) (names []string) {
	for i, name := range list {
		names = append(names, b.headerName(name, fmt.Sprintf("%s[%d]", field, i)))
	}
	return names
}
