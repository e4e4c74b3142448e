package translator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/credential"
	"github.com/penstock-project/penstock/translator/model"
)

func filterViews(a *model.Action) []string {
	views := append(corsView(a.CORS), authView(a.Auth)...)
	if a.Forward == nil {
		return views
	}
	if s := a.Forward.Session; s != nil {
		where := map[bool]string{true: "header", false: "cookie"}[s.Header]
		what := "server"
		if slices.ContainsFunc(a.Forward.Backends, func(w model.WeightedBackend) bool { return w.Imported() }) {
			what = "cluster, and there with its server"
		}
		views = append(views, fmt.Sprintf("a client stays with its %s, by %s %s", what, where, s.Name))
	}
	return append(views, mirrorViews(a.Forward.Mirrors)...)
}

func ownViews(w *model.WeightedBackend) (views []string) {
	o := w.Own
	if o == nil {
		return nil
	}
	views = append(corsView(o.CORS), authView(o.Auth)...)
	if o.Redirect != nil {
		views = append(views, fmt.Sprintf("answered %d: redirect", o.Redirect.Code))
	}
	return append(views, mirrorViews(o.Mirrors)...)
}

func corsView(c *model.CORS) []string {
	if c == nil {
		return nil
	}
	return []string{"CORS for " + credential.Text(strings.Join(c.Origins, " "))}
}

func authView(a *model.ExternalAuth) []string {
	if a == nil {
		return nil
	}
	protocol := map[bool]string{true: "gRPC", false: "HTTP"}[a.GRPC]
	return []string{fmt.Sprintf("%s (cluster %s) is asked first, in %s", a.Backend, a.Cluster, protocol)}
}

func mirrorViews(list []model.Mirror) (views []string) {
	for _, m := range list {
		views = append(views,
			fmt.Sprintf("%.4g%% are copied to %s (cluster %s)", 100*float64(m.Numerator)/float64(m.Denominator),
				m.Backend, m.Cluster))
	}
	return views
}

func tlsView(c *model.UpstreamTLS) string {
	switch {
	case c == nil:
		return ""
	case c.Insecure:
		return "not verified"
	}
	return fmt.Sprintf("as %s, trusting %s", strings.Join(slices.Concat(c.SANs, c.URIs), " or "),
		cmp.Or(c.Trust, "the system's CAs"))
}
