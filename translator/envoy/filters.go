package envoy

import (
	"slices"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/local_ratelimit/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	filterGateEarly   = "gate-early"
	filterUploads     = "uploads"
	filterScripts     = "scripts"
	filterStay        = "stay"
	filterCORS        = "cors"
	filterGate        = "gate"
	filterAuthz       = "ext-authz" // a user's ext_authz service
	filterRBAC        = "rbac"      // for peers, and on gated routes (gated)
	filterWatch       = "watch"
	filterRateLimit   = "local-rate-limit"
	filterSession     = "stateful-session"
	filterHeaders     = "header-mutation"
	filterMetadata    = "metadata"
	filterPicker      = "picker"       // the client gets its 503 or 429
	filterSpillPicker = "picker-spill" // its 503 or 429 means "no pick"
	filterTokenUsage  = "token-usage"
	filterRouter      = "router"
)

// httpFilters returns the fixed filter list. No filter is disabled: Envoy builds a stream's filters
// from the first route, so a disabled filter would stay out when the model scan's clearRouteCache
// selects another route.
//
// External authorization has no neutral configuration, and the token usage filter logs a warning
// wherever it is configured. So their places have composite filters, which routes fill. An empty
// composite lets requests pass, so the gates are not composites.
func (b *builder) httpFilters(uploads int64,
	headers *headersv3.HeaderMutation) []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		b.httpFilter(filterGateEarly, b.gate(true)),
		b.httpFilter(filterUploads, b.uploads(uploads)),
		b.httpFilter(filterScripts, scripts()),
		b.httpFilter(filterStay, stays()),
		b.httpFilter(filterCORS, &corsv3.Cors{}),
		b.httpFilter(filterGate, b.gate(false)),
		b.httpFilter(filterAuthz, &compositev3.Composite{}),
		b.httpFilter(filterRBAC, &rbacv3.RBAC{}),
		b.httpFilter(filterWatch, b.watch()),
		b.httpFilter(filterRateLimit, &ratelimitv3.LocalRateLimit{StatPrefix: "local_rate_limit"}),
		b.httpFilter(filterSession, &sessionv3.StatefulSession{}),
		b.httpFilter(filterHeaders, headers),
		b.httpFilter(filterMetadata, &compositev3.Composite{}),
		b.httpFilter(filterPicker, b.picker(false)),
		b.httpFilter(filterSpillPicker, b.picker(true)),
		b.httpFilter(filterTokenUsage, &compositev3.Composite{}),
		b.httpFilter(filterRouter, b.router()),
	}
}

var pickMetadata = []string{"envoy.lb", "penstock"}

func metadataOptions(sees, writes []string) *extprocv3.MetadataOptions {
	return &extprocv3.MetadataOptions{
		ForwardingNamespaces: &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: sees},
		ReceivingNamespaces:  &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: writes},
	}
}

// External pickers get no access to our picker's namespace, with which they could end other pools'
// requests.
func callMetadata(p *model.PickerCall, ours bool) *extprocv3.MetadataOptions {
	names, subset := namesOf(p), p.Subset != nil && p.Cluster.External()
	if ours && names == model.ProtocolNames() && !subset {
		return nil
	}
	writes := []string{names.Namespace}
	if ours {
		writes = slices.Compact(append(writes, pickMetadata...))
	}
	if subset {
		return metadataOptions(append(slices.Clip(writes), names.Subset), writes)
	}
	return metadataOptions(writes, writes)
}

func namesOf(p *model.PickerCall) model.PickerNames {
	if p.Names == nil {
		return model.ProtocolNames()
	}
	return *p.Names
}

// The filter calls a picker only if the weighted cluster names a picker (pickerOverride). If the
// picker fails, the cluster's fallback chooses the endpoint (docs/envoy.md, "Calls to pickers").
func (b *builder) picker(spills bool) *extprocv3.ExternalProcessor {
	return &extprocv3.ExternalProcessor{
		GrpcService:      b.grpc(model.OurPicker),
		FailureModeAllow: true,
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode:  extprocv3.ProcessingMode_SKIP,
			ResponseHeaderMode: extprocv3.ProcessingMode_SKIP,
		},
		MessageTimeout:    seconds(messageTimeout),
		MaxMessageTimeout: seconds(maxMessageTimeout),
		// An external picker's clear_route_cache must not select another weighted cluster.
		RouteCacheAction: extprocv3.ExternalProcessor_RETAIN,
		// The picker sets x-envoy-max-retries to the length of its list of endpoints.
		MutationRules:            &mutationv3.HeaderMutationRules{AllowEnvoy: boolean(true)},
		MetadataOptions:          metadataOptions(pickMetadata, pickMetadata),
		DisableImmediateResponse: spills,
		// In FULL_DUPLEX_STREAMED, requests cannot bypass a failed picker.
		StatusOnError:            &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		AllowContentLengthHeader: true,
		// Pickers with model.BodyWhole (STREAMED) answer headers and body together.
		SendBodyWithoutWaitingForHeaderResponse: true,
	}
}
