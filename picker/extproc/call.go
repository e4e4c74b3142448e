package extproc

import (
	"context"
	"strconv"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"
)

// Keys of an ext_proc call's initial metadata, which the gateway's configuration sets.
const (
	MetadataKeyPool = "x-penstock-pool"
	// MetadataKeyRetries is the number of retries in the route's policy.
	MetadataKeyRetries = "x-penstock-retries"
	// MetadataKeySpill lists spill targets, comma-separated, such as
	// "envoy://hops/hop.default.pool.b".
	MetadataKeySpill = "x-penstock-spill"
	// MetadataKeyPools lists the pools of the route's rule, comma-separated.
	MetadataKeyPools = "x-penstock-pools"
	// MetadataKeyLast is "true" for a request that was already spilled.
	MetadataKeyLast = "x-penstock-last"
	// MetadataKeyOpen is "true" if any known endpoint may serve the request when the remote picker
	// names none.
	MetadataKeyOpen = "x-penstock-open"
	// MetadataKeySubset is a label selector for endpoints.
	MetadataKeySubset = "x-penstock-subset"
	// MetadataKeyImport is "true" in calls from a cluster that imports the pool.
	MetadataKeyImport = "x-penstock-import"
	// MetadataKeyTries is "fixed" if the route limits the time of each attempt. The picker then
	// sets no limit.
	MetadataKeyTries = "x-penstock-tries"
	// MetadataKeyUsage is "exact" if streams must report their tokens (BodyPolicy.Usage).
	MetadataKeyUsage = "x-penstock-usage"
	// MetadataKeyUpload marks a call about an upload, without a pick. Its value is the limit, in
	// bytes, of all bodies in the Envoy.
	MetadataKeyUpload = "x-penstock-upload"
	// MetadataKeyFailed marks a call about a failed response, without a pick. Its value is the
	// address of a server of the pool.
	MetadataKeyFailed = "x-penstock-failed"
	// MetadataKeyWatch marks a call that watches an open request, without a pick. Its value is the
	// grant that the access check issued (package authz). MetadataKeyPools then lists the pools
	// that the route may reach, and MetadataKeyPolicies the route's policies, comma-separated.
	MetadataKeyWatch    = "x-penstock-watch"
	MetadataKeyPolicies = "x-penstock-policies"
)

type call struct {
	pool, traceParent string
	subset            string
	retries           int
	spill, pools      []string
	last, imported    bool
	open, fixed       bool
	exact             bool
	failed            string
	upload            int64
	watch             bool
	grant             string
	policies          []string
}

func readCall(md metadata.MD) (c call) {
	first := func(key string) string {
		if v := md[key]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	c.pool, c.retries, c.traceParent = first(MetadataKeyPool), Number(first(MetadataKeyRetries)), first("traceparent")
	c.subset = first(MetadataKeySubset)
	if spill := first(MetadataKeySpill); spill != "" {
		c.spill = strings.Split(spill, ",")
	}
	if pools := first(MetadataKeyPools); pools != "" {
		c.pools = strings.Split(pools, ",")
	}
	c.open, c.fixed = first(MetadataKeyOpen) == "true", first(MetadataKeyTries) == "fixed"
	c.failed, c.exact = first(MetadataKeyFailed), first(MetadataKeyUsage) == "exact"
	if grants := md[MetadataKeyWatch]; len(grants) > 0 {
		c.watch, c.grant = true, grants[0]
		c.policies = strings.FieldsFunc(first(MetadataKeyPolicies), func(r rune) bool { return r == ',' })
	}
	c.last, c.imported = first(MetadataKeyLast) == "true", first(MetadataKeyImport) == "true"
	if limit, err := strconv.ParseInt(first(MetadataKeyUpload), 10, 64); err == nil && limit > 0 {
		c.upload = limit
	}
	return c
}

type callContext struct {
	context.Context
	call call
}

type callKey struct{}

func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return &c.call
	}
	return c.Context.Value(key)
}

// ReadCall is a tap.ServerInHandle that parses a call's metadata. A handler of the call would have
// to copy the metadata, for 1.2 us of a pick's 50 us.
func ReadCall(ctx context.Context, info *tap.Info) (context.Context, error) {
	if info.FullMethodName != processMethod {
		return ctx, nil
	}
	return &callContext{ctx, readCall(info.Header)}, nil
}

func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		return c
	}
	md, _ := metadata.FromIncomingContext(ctx)
	c := readCall(md)
	return &c
}
