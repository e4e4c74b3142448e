package authz

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"
)

// Check's answer sets these keys in the request's dynamic metadata, namespace
// envoy.filters.http.ext_authz.
const (
	// MetadataDecided lists the policies that permit the request. The route's RBAC filter requires
	// it.
	MetadataDecided = "decided"
	// MetadataCaller is the caller, for access logs, also with status 403.
	MetadataCaller = "caller"
	// MetadataPolicy is the policy that denies the request (Decision.Policy), for access logs.
	MetadataPolicy = "policy"
	// MetadataGroups lists the caller's groups.
	MetadataGroups = "groups"
	metadataKeys   = "keys"
	metadataVouch  = "vouch"
	metadataFinal  = "final" // the early ext_authz filter's answer is final, so the late filter makes no call
	metadataGrant  = "grant"
)

// Clients cannot set these headers: Envoy removes a client's x-penstock-* headers, and the answer
// overwrites or removes the x-gateway-* headers.
const (
	// CallerHeader has the caller, for our picker. Other clusters receive it, but model servers do
	// not (translator/envoy, hopsCaller).
	CallerHeader = "x-penstock-caller"
	// ModelHeader has the model. The script scan.lua (translator/envoy) sets it if every server
	// reads the same model from the body.
	ModelHeader = "x-penstock-model"
	// KeysHeader has the restricted keys of a request for the list of models, for our picker
	// (Table.Permits).
	KeysHeader = "x-penstock-keys"
	// GroupsHeader has the caller's groups, for other clusters: comma-separated, each escaped as in
	// a URL's query, at most maxGroups in maxGroupsSize bytes.
	GroupsHeader    = "x-penstock-groups"
	chunkedHeader   = "x-penstock-chunked" // the client's Transfer-Encoding
	reasonHeader    = "x-penstock-reason"
	fairnessHeader  = "x-gateway-inference-fairness-id"
	objectiveHeader = "x-gateway-inference-objective"
)

// others has llm-d's names of fairnessHeader and objectiveHeader. Pickers prefer these names, so
// the answer removes them.
var others = []string{"x-llm-d-inference-fairness-id", "x-llm-d-inference-objective"}

func (c *call) anthropic() bool {
	path, _, _ := strings.Cut(c.path, "?")
	return strings.HasSuffix(path, "/v1/messages") || strings.HasSuffix(path, "/v1/messages/count_tokens")
}

// denial is the answer for one Reason. Its texts never depend on the key.
type denial struct {
	code          codes.Code
	status        typev3.StatusCode
	text          string
	anthropicType string
}

var denials = map[string]denial{
	ReasonInvalidKey: {codes.Unauthenticated, typev3.StatusCode_Unauthorized,
		"no valid API key or token: send one as Authorization: Bearer KEY, x-api-key or api-key",
		"authentication_error"},
	ReasonNotPermitted: {codes.PermissionDenied, typev3.StatusCode_Forbidden,
		"the API key is valid, but a policy of this route does not let it in", "permission_error"},
	ReasonModel: {codes.PermissionDenied, typev3.StatusCode_Forbidden,
		"the API key is valid, but not for this model, or the request does not name one as application/json",
		"permission_error"},
	ReasonAttempts: {codes.ResourceExhausted, typev3.StatusCode_TooManyRequests,
		"too many requests from this address had no valid API key: wait a minute", "rate_limit_error"},
	ReasonClosed: {codes.PermissionDenied, typev3.StatusCode_Forbidden,
		"AccessPolicy %s is invalid and lets nothing in: the operator of this route has to correct it",
		"permission_error"},
	ReasonPool: {codes.PermissionDenied, typev3.StatusCode_Forbidden,
		"the API key is valid, but not for a pool that this route may reach", "permission_error"},
}

// decides reports whether this decision about a permitted request is final. If it is not, the late
// ext_authz filter still needs the key.
func (c *call) decides(d Decision) bool { return !c.Early || c.final && len(d.Restricted) == 0 }

// reply returns the answer for a decision. An early answer that permits a request, but is not
// final, has no headers and no metadata.
func (c *call) reply(d Decision) *authv3.CheckResponse {
	switch {
	case c.preflight, d.Reason == "" && !c.decides(d):
		return &authv3.CheckResponse{
			Status:       &rpcstatus.Status{Code: int32(codes.OK)},
			HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{}},
		}
	case d.Reason != "":
		return c.denied(d)
	}
	set := []*corev3.HeaderValueOption{overwrite(CallerHeader, d.Key.Caller), overwrite(fairnessHeader, d.Key.Caller)}
	remove := append(d.Remove[:len(d.Remove):len(d.Remove)], others...)
	remove = append(remove, ModelHeader)
	if d.Key.Objective != "" {
		set = append(set, overwrite(objectiveHeader, d.Key.Objective))
	} else {
		remove = append(remove, objectiveHeader)
	}
	metadata := map[string]*structpb.Value{
		MetadataDecided: texts(c.Policies), MetadataCaller: structpb.NewStringValue(d.Key.Caller),
	}
	if c.Lists && len(d.Restricted) > 0 {
		var keys []string
		for _, k := range d.Restricted {
			keys = append(keys, k.reference())
		}
		list := strings.Join(keys, ",")
		set, metadata[metadataKeys] = append(set, overwrite(KeysHeader, list)), structpb.NewStringValue(list)
	}
	if len(d.Key.Groups) > 0 {
		metadata[MetadataGroups] = texts(d.Key.Groups)
		if list := vouched(d.Key.Groups); list != "" {
			set, metadata[metadataVouch] = append(set, overwrite(GroupsHeader, list)), structpb.NewStringValue(list)
		}
	}
	if c.grant != "" {
		metadata[metadataGrant] = structpb.NewStringValue(c.grant)
	}
	if c.Early {
		metadata[metadataFinal] = structpb.NewBoolValue(true)
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{
			OkResponse: &authv3.OkHttpResponse{Headers: set, HeadersToRemove: remove},
		},
		DynamicMetadata: &structpb.Struct{Fields: metadata},
	}
}

const (
	maxGroups, maxGroupsSize = 32, 1024
	// maxStated is the longest caller from another cluster, in bytes.
	maxStated = 512
)

// Stated reports whether another cluster may send this text as a caller. Callers have no other
// characters (jwt.Identity.Owner). The script of peer listeners makes the same check
// (translator/envoy, peer.lua).
func Stated(caller []byte) bool {
	return len(caller) > 0 && len(caller) <= maxStated && !slices.ContainsFunc(caller, func(c byte) bool {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		return !letter && strings.IndexByte("@._:%/-", c) < 0
	})
}

func vouched(groups []string) string {
	var list strings.Builder
	for i, g := range groups {
		text := url.QueryEscape(g)
		if i == maxGroups || list.Len()+1+len(text) > maxGroupsSize {
			break
		}
		if i > 0 {
			list.WriteByte(',')
		}
		list.WriteString(text)
	}
	return list.String()
}

func texts(list []string) *structpb.Value {
	out := make([]*structpb.Value, len(list))
	for i, text := range list {
		out[i] = structpb.NewStringValue(text)
	}
	return structpb.NewListValue(&structpb.ListValue{Values: out})
}

func (c *call) denied(d Decision) *authv3.CheckResponse {
	how := denials[d.Reason]
	if d.Reason == ReasonClosed {
		how.text = fmt.Sprintf(how.text, d.Policy)
	}
	response := &authv3.DeniedHttpResponse{
		Status:  &typev3.HttpStatus{Code: how.status},
		Headers: []*corev3.HeaderValueOption{overwrite(reasonHeader, d.Reason)},
		Body:    how.text, // in a gRPC call, Envoy sends the text as the message
	}
	if how.status == http.StatusUnauthorized {
		response.Headers = append(response.Headers, overwrite("www-authenticate", "Bearer"))
	}
	if how.status == http.StatusTooManyRequests {
		response.Headers = append(response.Headers, overwrite("retry-after", "60"))
	}
	if !c.grpc {
		response.Headers = append(response.Headers, overwrite("content-type", "application/json"))
		response.Body = how.body(d.Reason, c.anthropic())
	}
	out := &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(how.code)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: response},
	}
	metadata := map[string]*structpb.Value{}
	if d.Key != nil {
		metadata[MetadataCaller] = structpb.NewStringValue(d.Key.Caller)
	}
	if d.Policy != "" {
		metadata[MetadataPolicy] = structpb.NewStringValue(d.Policy)
	}
	if len(metadata) > 0 {
		out.DynamicMetadata = &structpb.Struct{Fields: metadata}
	}
	return out
}

func (d denial) body(reason string, anthropic bool) string {
	type problem struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	var body any = map[string]problem{"error": {d.text, "invalid_request_error", nil, reason}}
	if anthropic {
		body = map[string]any{"type": "error",
			"error": map[string]string{"type": d.anthropicType, "message": d.text}}
	}
	out, _ := json.Marshal(body) // no error: only strings
	return string(out)
}

func overwrite(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
