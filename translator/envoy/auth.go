package envoy

import (
	xdscore "github.com/cncf/xds/go/xds/core/v3"
	matcherxds "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

const notCopied = "connection|content-length|date|keep-alive|server|te|trailer|transfer-encoding|upgrade|x-envoy-.*"

const ourHeaders = "x-penstock-.*|penstock-peer-.*"

func (b *builder) externalAuth(a *model.ExternalAuth) *anypb.Any {
	c := &authzv3.ExtAuthz{
		TransportApiVersion: corev3.ApiVersion_V3,
		// A service that gives no answer has not denied the request, so the status is not 403.
		StatusOnError:                  &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		EnableDynamicMetadataIngestion: boolean(false),
		DecoderHeaderMutationRules:     &mutationv3.HeaderMutationRules{DisallowExpression: regex(ourHeaders)},
	}
	if len(a.Headers) > 0 {
		c.AllowedHeaders = names(a.Headers)
	}
	if a.MaxBody > 0 {
		c.WithRequestBody = &authzv3.BufferSettings{MaxRequestBytes: a.MaxBody, PackAsBytes: a.GRPC}
	}
	if a.GRPC {
		service := b.grpc(a.Cluster)
		service.Timeout = seconds(authTimeout)
		c.Services = &authzv3.ExtAuthz_GrpcService{GrpcService: service}
		return b.fill(filterAuthz, c)
	}
	copied := &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{byRegex(".+")}}
	if len(a.Copied) > 0 {
		copied = names(a.Copied)
	}
	c.Services = &authzv3.ExtAuthz_HttpService{HttpService: &authzv3.HttpService{
		ServerUri: &corev3.HttpUri{
			Uri:              "http://" + a.Cluster.String(),
			HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: b.cluster(a.Cluster)},
			Timeout:          seconds(authTimeout),
		},
		PathPrefix:            a.Path,
		AuthorizationResponse: &authzv3.AuthorizationResponse{AllowedUpstreamHeaders: copied},
	}}
	c.DecoderHeaderMutationRules = &mutationv3.HeaderMutationRules{DisallowExpression: regex(
		notCopied + "|" + ourHeaders)}
	return b.fill(filterAuthz, c)
}

func (b *builder) fill(place string, filter proto.Message) *anypb.Any {
	return b.fillWith(&compositev3.ExecuteFilterAction{TypedConfig: b.extension(place, filter)})
}

func (b *builder) fillWith(action *compositev3.ExecuteFilterAction) *anypb.Any {
	return b.any(&compositev3.CompositePerRoute{Matcher: &matcherxds.Matcher{
		OnNoMatch: &matcherxds.Matcher_OnMatch{OnMatch: &matcherxds.Matcher_OnMatch_Action{
			Action: &xdscore.TypedExtensionConfig{Name: "always", TypedConfig: b.any(action)},
		}},
	}})
}

func names(list []string) *matcherv3.ListStringMatcher {
	out := &matcherv3.ListStringMatcher{}
	for _, n := range list {
		m := exact(n)
		m.IgnoreCase = true
		out.Patterns = append(out.Patterns, m)
	}
	return out
}
