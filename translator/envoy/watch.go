package envoy

import (
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	// metaWatch's value is the gate's grantMetadata.
	metaWatch    = "x-penstock-watch"
	metaPolicies = "x-penstock-policies" // value: model.Route.Gates, comma-separated
)

// watch keeps a call to our authorization service open until a response ends, so that the service
// can end the request. Only routes with watches make the call. If the call fails, the request ends
// too: otherwise a request could outlive its key after the service's process has ended.
func (b *builder) watch() *extprocv3.ExternalProcessor {
	return &extprocv3.ExternalProcessor{
		GrpcService: b.grpc(model.OurGate),
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:  extprocv3.ProcessingMode_SKIP,
			ResponseHeaderMode: extprocv3.ProcessingMode_SKIP,
		},
		MessageTimeout:   seconds(b.gateTimeout(gateTimeout)),
		StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		RouteCacheAction: extprocv3.ExternalProcessor_RETAIN,
		MutationRules:    &mutationv3.HeaderMutationRules{DisallowAll: boolean(true)},
		StatPrefix:       filterWatch,
	}
}

func (b *builder) watches(g gateOf) *anypb.Any {
	service := b.grpc(model.OurGate)
	service.RetryPolicy = b.callAgain()
	service.InitialMetadata = []*corev3.HeaderValue{
		{Key: metaWatch, Value: "%DYNAMIC_METADATA(" + gateMetadata + ":" + grantMetadata + ")%"},
	}
	addMeta(service, metaPolicies, strings.Join(g.policies, ","))
	addMeta(service, metaPools, strings.Join(g.reaches, ","))
	return b.any(&extprocv3.ExtProcPerRoute{
		Override: &extprocv3.ExtProcPerRoute_Overrides{Overrides: &extprocv3.ExtProcOverrides{
			GrpcService: service,
			ProcessingMode: &extprocv3.ProcessingMode{
				RequestHeaderMode:   extprocv3.ProcessingMode_SEND,
				ResponseHeaderMode:  extprocv3.ProcessingMode_SKIP,
				ResponseTrailerMode: extprocv3.ProcessingMode_SEND, // keeps the call open until the response ends
			},
		}},
	})
}
