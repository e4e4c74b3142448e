package envoy

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacrulesv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/resource"
)

const (
	// peerAuthority has the client's :authority. Between members of the cluster set, :authority
	// names the pool.
	peerAuthority = "penstock-peer-authority"
	// peerMark marks a response if no pod can have started the request: a retry may choose
	// another member.
	peerMark = "penstock-peer-refused"
	// peerLost marks a response if the connection to a member's gateway was lost: a pod there may
	// have started the request.
	peerLost = "penstock-peer-lost"
	// peerSender names the picker process that chose the exporting cluster, whose picker counts
	// requests by sender. Routes remove this header and the next three from requests to pods.
	peerSender = "penstock-peer-sender"
	// peerOthers is the number of attempts that may follow the first. A cluster's picker queues
	// a request only in the last attempt (picker.OthersHeader).
	peerOthers  = "penstock-peer-others"
	peerAttempt = "penstock-peer-attempt"
	peerSession = "penstock-peer-session"
	// peerCluster has the address of the hop to the cluster with the request's session. The edge's
	// picker reads it, and the route then removes it.
	peerCluster = "penstock-peer-cluster"
	// peerCaller and peerGroups have the sending member's callerHeader and groupsHeader. peer.lua
	// drops values that the ClusterSet does not trust.
	peerCaller = "penstock-peer-caller"
	peerGroups = "penstock-peer-groups"
)

const (
	filterBorder  = "border"
	filterRestore = "restore"
)

//go:embed peer.lua
var peerScript string

var peerStrip = slices.Concat([]*mutationv3.HeaderMutation{
	removePrefix("x-envoy-"), removeHeader(endpointHeader), removeHeader(ModelHeader), removePrefix("x-penstock-"),
	noteChunked(),
}, routingHeaders())

// PeerListener encodes a Gateway's listener for members of the cluster set. It does not depend on
// members, exports or certificates: the virtual hosts of exported pools authorize requests.
func PeerListener(cfg Config, p model.PeerListener) (*resource.Resource, error) {
	if len(p.Addresses) == 0 {
		return nil, fmt.Errorf("the peer listener of Gateway %s has no address", p.Gateway)
	}
	b := &builder{peers: true}
	l := tcpListener(cfg, p.Port)
	proxied := p.Edge.ProxyProtocol
	if proxied == v1alpha1.ProxyProtocolRequired {
		proxied = v1alpha1.ProxyProtocolOptional
	}
	l.ListenerFilters = append(b.proxyProtocol(proxied), b.listenerFilter("tls_inspector", &inspectorv3.TlsInspector{}))
	name := model.PeerChain(p.Number)
	l.FilterChains = []*listenerv3.FilterChain{{
		Name:             name,
		FilterChainMatch: byName("*." + p.Cluster + "." + model.PeerDomain),
		TransportSocket:  b.socket("tls", b.membersAlone()),
		Filters:          b.only("hcm", b.peer(cfg, p, name)),
	}}
	return b.resource(resource.Listener, l.Name, l, p.Owners)
}

// TLS session resumption is off, so that Envoy verifies each connection's certificate.
func (b *builder) membersAlone() *tlsv3.DownstreamTlsContext {
	return &tlsv3.DownstreamTlsContext{
		RequireClientCertificate:         boolean(true),
		DisableStatefulSessionResumption: true,
		SessionTicketKeysType: &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{
			DisableStatelessSessionResumption: true,
		},
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams: &tlsv3.TlsParameters{
				TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
				TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
			},
			AlpnProtocols:                  []string{"h2", "http/1.1"},
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{b.sds(model.MemberCertificate)},
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContextSdsSecretConfig{
				ValidationContextSdsSecretConfig: b.sds(model.MembersTrust),
			},
		},
	}
}

func (b *builder) gateways(domains []model.TrustDomain) *tlsv3.CertificateValidationContext {
	out, config := &tlsv3.CertificateValidationContext{}, &tlsv3.SPIFFECertValidatorConfig{}
	for _, d := range domains {
		config.TrustDomains = append(config.TrustDomains,
			&tlsv3.SPIFFECertValidatorConfig_TrustDomain{Name: d.Name, TrustBundle: data(d.Bundle)})
		out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
			SanType: tlsv3.SubjectAltNameMatcher_URI, Matcher: exact(model.GatewayURI(d.Name)),
		})
	}
	out.CustomValidatorConfig = b.extension("envoy.tls.cert_validator.spiffe", config)
	return out
}

func (b *builder) peer(cfg Config, p model.PeerListener, name string) *hcmv3.HttpConnectionManager {
	m := b.manager(cfg, p.Gateway, name, p.Edge.RequestTimeout, p.Edge.Uploads, &headersv3.HeaderMutation{})
	m.HttpFilters = b.peerFilters(m.HttpFilters)
	m.HttpProtocolOptions.EnableTrailers = true
	m.SkipXffAppend = true // the sending gateway has added the client's address
	b.keepRequestID(m)
	m.EarlyHeaderMutationExtensions = b.strip(peerStrip)
	m.LocalReplyConfig = b.localReplies(marks()...)
	m.LocalReplyConfig.Mappers = append([]*hcmv3.ResponseMapper{
		b.apiError(isAPI+" && "+isNotAdmitted, true, notAdmittedText, "'"+reasonMember+"'"),
		b.apiError(isAPI+" && "+isNotAdmitted, false, notAdmittedText, "'"+reasonMember+"'"),
	}, m.LocalReplyConfig.Mappers...)
	return m
}

const (
	// gatedSuffix ends the route's name if AccessPolicies limit the members (model.PeerHost.Gated).
	gatedSuffix     = "#members"
	reasonMember    = "member_not_permitted"
	isDenied        = codeDetails + ".startsWith('rbac_access_denied')"
	isNotAdmitted   = isDenied + " && xds.route_name.endsWith('" + gatedSuffix + "')"
	notAdmittedText = "no AccessPolicy of the cluster with the pool lets in requests of this cluster"
	// deniedReason replaces headerReason in all responses, because servers may write the header.
	deniedReason = "%CEL(" + isNotAdmitted + " ? '" + reasonMember + "' : " + isDenied + " ? 'denied' : '')%"
)

// peerFilters removes the authorization filters: the importing cluster has authorized the request.
func (b *builder) peerFilters(all []*hcmv3.HttpFilter) []*hcmv3.HttpFilter {
	first := []*hcmv3.HttpFilter{
		b.httpFilter(filterBorder,
			&headersv3.HeaderMutation{Mutations: &headersv3.Mutations{ResponseMutations: []*mutationv3.HeaderMutation{
				removeHeader(endpointHeader), removePrefix("x-penstock-"), setHeader(headerReason, deniedReason),
			}}}),
		// This filter has no policies, so it denies requests until a virtual host overrides it.
		b.httpFilter(filterRBAC, &rbacv3.RBAC{Rules: &rbacrulesv3.RBAC{Action: rbacrulesv3.RBAC_ALLOW}}),
		b.httpFilter(filterRestore, &luav3.Lua{DefaultSourceCode: inline(peerScript), ClearRouteCache: boolean(false)}),
	}
	not := []string{filterRBAC, filterGateEarly, filterGate, filterWatch}
	return append(first,
		slices.DeleteFunc(slices.Clone(all), func(f *hcmv3.HttpFilter) bool { return slices.Contains(not, f.Name) })...)
}

// With these response flags, a pod may have started the request.
var begun = []string{"UC", "UR", "UT", "LR", "SI", "UPE", "UMSDR", "DC", "DT", "DPE"}

func marks() []localClass {
	status := func(code uint32) *accesslogv3.AccessLogFilter {
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_StatusCodeFilter{
			StatusCodeFilter: &accesslogv3.StatusCodeFilter{Comparison: &accesslogv3.ComparisonFilter{
				Op:    accesslogv3.ComparisonFilter_EQ,
				Value: &corev3.RuntimeUInt32{DefaultValue: code, RuntimeKey: "penstock.mark"},
			}},
		}}
	}
	flags := func(list ...string) *accesslogv3.AccessLogFilter {
		return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ResponseFlagFilter{
			ResponseFlagFilter: &accesslogv3.ResponseFlagFilter{Flags: list},
		}}
	}
	add := func(name string) []*corev3.HeaderValueOption {
		return []*corev3.HeaderValueOption{overwrite(name, "1")}
	}
	member := header(":authority", &matcherv3.StringMatcher{
		MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: "." + model.PeerDomain},
	})
	toMember := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{
		HeaderFilter: &accesslogv3.HeaderFilter{Header: member},
	}}
	return []localClass{
		{
			filter: allOf(flags("UC", "UR"), toMember),
			add:    add(peerLost),
		},
		{filter: flags(begun...)},
		{
			filter: &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_OrFilter{
				OrFilter: &accesslogv3.OrFilter{
					Filters: []*accesslogv3.AccessLogFilter{status(429), status(503), status(ringStatus)},
				},
			}},
			add: add(peerMark),
		},
	}
}

// Without pings, requests to a member that drops all packets would never end.
const peerPing = time.Second

func peerProtocol() *corev3.Http2ProtocolOptions {
	return &corev3.Http2ProtocolOptions{
		AllowConnect:        true,
		ConnectionKeepalive: peerKeepalive(),
	}
}

func peerKeepalive() *corev3.KeepaliveSettings {
	return &corev3.KeepaliveSettings{Interval: seconds(peerPing), Timeout: seconds(peerPing),
		ConnectionIdleInterval: seconds(peerPing)}
}

func toPeer(share *routev3.WeightedCluster_ClusterWeight, authority string) {
	own := "%REQ(:AUTHORITY)%"
	if host := share.GetHostRewriteLiteral(); host != "" {
		own = strings.ReplaceAll(host, "%", "%%")
	}
	share.RequestHeadersToAdd = append(share.RequestHeadersToAdd, overwrite(peerAuthority, own))
	share.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{
		HostRewriteLiteral: authority,
	}
}

// vouch sends the caller that this route's gate found to another cluster. It first removes both
// headers, because only gates may set them. Behind a hop, the hop's listener sets them.
func vouch(share *routev3.WeightedCluster_ClusterWeight, gated bool) {
	share.RequestHeadersToRemove = append(slices.Clip(share.RequestHeadersToRemove), peerCaller, peerGroups)
	if !gated {
		return
	}
	from := func(key string) string { return "%DYNAMIC_METADATA(" + gateMetadata + ":" + key + ")%" }
	share.RequestHeadersToAdd = append(share.RequestHeadersToAdd, overwrite(peerCaller, from(callerMetadata)),
		overwrite(peerGroups, from(vouchMetadata)))
}

// PeerHost encodes a pool for a peer listener. The connection's SNI must equal the authority:
// otherwise a member that may use one pool could reach other pools.
func PeerHost(h *model.PeerHost) (*Encoded, error) {
	b := &builder{peers: true, believes: len(h.Believed) > 0}
	name := h.Host
	if h.Gated {
		name += gatedSuffix
	}
	host := &routev3.VirtualHost{
		Name:                    h.Host,
		Domains:                 []string{h.Host},
		ResponseHeadersToRemove: []string{peerMark, peerLost, peerAuthority},
		TypedPerFilterConfig: map[string]*anypb.Any{
			filterRBAC: b.any(&rbacv3.RBACPerRoute{Rbac: &rbacv3.RBAC{Rules: peerRules(h)}}),
		},
		Routes: b.routes(&model.VirtualHost{Host: h.Host, Routes: []model.Route{{
			Name:   name,
			Match:  model.Match{PathKind: model.PathPrefix, Path: "/"},
			Action: &model.Action{Forward: &model.Forward{Backends: h.Backends}},
		}}}),
	}
	if len(h.Believed) > 0 {
		host.TypedPerFilterConfig[filterRestore] = b.any(&luav3.LuaPerRoute{FilterContext: believed(h)})
	}
	out, err := b.encoded(host, h.Owners)
	if err != nil {
		return nil, fmt.Errorf("host %s of peer listeners: %w", h.Host, err)
	}
	return out, nil
}

// believed returns peer.lua's context: the parts of a caller's identity that a member may set.
func believed(h *model.PeerHost) *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for member, parts := range h.Believed {
		one := map[string]*structpb.Value{}
		for _, part := range parts {
			one[part] = structpb.NewBoolValue(true)
		}
		fields[member] = structpb.NewStructValue(&structpb.Struct{Fields: one})
	}
	return &structpb.Struct{Fields: fields}
}

func peerRules(h *model.PeerHost) *rbacrulesv3.RBAC {
	out := &rbacrulesv3.RBAC{Action: rbacrulesv3.RBAC_ALLOW}
	policy := &rbacrulesv3.Policy{Permissions: []*rbacrulesv3.Permission{{
		Rule: &rbacrulesv3.Permission_RequestedServerName{RequestedServerName: exact(h.Host)},
	}}}
	for _, name := range h.Members {
		policy.Principals = append(policy.Principals,
			&rbacrulesv3.Principal{Identifier: &rbacrulesv3.Principal_Authenticated_{
				Authenticated: &rbacrulesv3.Principal_Authenticated{PrincipalName: exact(model.GatewayURI(name))},
			}})
	}
	if len(policy.Principals) > 0 {
		out.Policies = map[string]*rbacrulesv3.Policy{"members": policy}
	}
	return out
}
