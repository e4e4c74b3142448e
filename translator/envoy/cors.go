package envoy

import (
	"regexp"
	"strconv"
	"strings"

	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *builder) cors(c *model.CORS) *anypb.Any {
	p := &corsv3.CorsPolicy{
		AllowMethods:                 strings.Join(c.Methods, ", "),
		AllowHeaders:                 strings.Join(c.Headers, ", "),
		ExposeHeaders:                strings.Join(c.Expose, ", "),
		MaxAge:                       strconv.FormatInt(int64(c.MaxAge.Seconds()), 10),
		ForwardNotMatchingPreflights: boolean(false),
	}
	if c.Credentials {
		p.AllowCredentials = boolean(true)
	}
	for _, o := range c.Origins {
		p.AllowOriginStringMatch = append(p.AllowOriginStringMatch, origin(o))
	}
	return b.any(p)
}

func origin(o string) *matcherv3.StringMatcher {
	if o == "*" {
		return byRegex(".+")
	}
	before, after, wild := strings.Cut(o, "*")
	if !wild {
		return exact(o)
	}
	host := `[^/:]+`
	if !strings.HasPrefix(after, ".") {
		host = `([^/:]+|\[[0-9a-f:.]+\])`
	}
	return byRegex(regexp.QuoteMeta(before) + host + regexp.QuoteMeta(after))
}
