package explain

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// Form describes a request exactly: Wire returns the request's bytes.
type Form struct {
	Method, Target, Host string
	Header               [][2]string
	Model                string // "" if the body names no model
	Body                 string
	Version              string
}

// Form draws a request. Most requests match a route, or nearly do.
func (g *Grammar) Form() Form {
	m := pick(g, g.matches)
	f := Form{Method: m.Method, Version: "1.1", Host: g.host(m.host)}
	if f.Method == "" || g.chance(10) {
		f.Method = pick(g, methods)
	}
	if g.chance(3) {
		f.Method = pick(g, []string{"get", "FOO", "TRACE", "PURGE"})
	}
	f.Target = g.path(m.Path)
	var query []string
	for _, q := range m.Query {
		if g.chance(90) {
			query = append(query, g.parameter(q))
		}
	}
	for g.chance(25) {
		query = append(query, g.parameter(pick(g, parameters)))
	}
	if len(query) > 0 || g.chance(5) {
		f.Target += "?" + strings.Join(query, "&")
	}
	for _, h := range m.Headers {
		if g.chance(90) {
			g.header(&f, h)
		}
	}
	for g.chance(25) {
		g.header(&f, pick(g, headers))
	}
	if g.chance(8) {
		f.Method, f.Target = "POST", pick(g, []string{"/echo.Echo/Ask", "/echo.Echo/Other", "/echo.More/UP",
			"/echo.Echo", "/echo.Echo/"})
		f.Header = append(f.Header, [2]string{"content-type", pick(g, []string{"application/grpc",
			"application/grpc+proto", "application/grpc-web", "application/grpc;x=1"})})
		f.Host = g.host("b.test")
	}
	g.body(&f)
	if g.chance(3) {
		f.Version = "1.0"
	}
	return f
}

func (g *Grammar) host(hostname string) string {
	host := hostname
	switch {
	case hostname == "":
		host = pick(g, []string{"a.test", "other.test", "127.0.0.1", "[::1]", "localhost", "w.test"})
	case strings.HasPrefix(hostname, "*"):
		host = pick(g, []string{"y", "x", "z.y", "Y", "a-b", ""}) + hostname[1:]
	}
	switch g.IntN(12) {
	case 0:
		host = strings.ToUpper(host)
	case 1:
		host += pick(g, []string{":80", ":8080", ":", ":x"})
	case 2:
		host += "."
	case 3:
		host += ".:80"
	case 4:
		host = pick(g, []string{"a.test..", ".a.test", "a_b.test", "a b.test", "a@b.test", "a.test/x", "é.test",
			"%61.test", "a,b.test"})
	}
	return host
}

func (g *Grammar) path(match *path) string {
	p := match.Value
	if match.Type == regex {
		p = pick(g, []string{"/r/abc", "/r/~x", "/my-team", "/CASE", "/v2/x/y", "/a", "/b", "/xy", "/x/z/y",
			"/one/two", "/r/%7Ex", "/a%20b"})
	} else if match.Type == "PathPrefix" && g.chance(60) {
		p = strings.TrimSuffix(p, "/") + pick(g, []string{"/", "/more", "more", "/more/", "/..", "/../x", "/.", "//x"})
	}
	for g.chance(40) {
		p = g.spoil(p)
	}
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return p
}

func (g *Grammar) spoil(p string) string {
	at := g.IntN(len(p)) + 1 // usually after the first slash
	insert := func(text string) string { return p[:at] + text + p[at:] }
	switch g.IntN(10) {
	case 0, 1:
		if at < len(p) && p[at] != '%' {
			hex := pick(g, []string{"%%%02x", "%%%02X"})
			return p[:at] + fmt.Sprintf(hex, p[at]) + p[at+1:]
		}
		return insert(pick(g, []string{"%7E", "%7e", "%41", "%2D"}))
	case 2:
		return insert(pick(g, []string{"/", "//", "/./", "/../", "/%2e/", "/%2E%2e/", "/.%2e/", "/..;/"}))
	case 3:
		return insert(pick(g, []string{"%2F", "%2f", "%5C", "%5c", "\\", "%252F"}))
	case 4:
		return insert(pick(g, []string{"%", "%2", "%zz", "%%41", "%%3441", "%4%31", "%00", "%25", "%0a", "%7f", "%80",
			"%20"}))
	case 5:
		return insert(pick(g, []string{"\"", "<", ">", "[", "]", "^", "`", "{", "|", "}", "'", "!", "*", "$", "&",
			"=", ",", ";", ":", "@", "+"}))
	case 6:
		return insert(pick(g, []string{"é", "\x80", " ", "\t", "\x7f", "\x0c", "\x01"}))
	case 7:
		return strings.ToUpper(p)
	case 8:
		return p + "/"
	}
	return pick(g, []string{"", "/x/..", "/%2e%2e"}) + p
}

func (g *Grammar) parameter(match value) string {
	v := match.Value
	if match.Type == regex {
		v = pick(g, []string{"abc", "/x/y", "a b", "A"})
	}
	switch g.IntN(7) {
	case 0:
		v = url.QueryEscape(v)
	case 1:
		v = url.PathEscape(v)
	case 2:
		v = strings.ReplaceAll(v, " ", "+")
	case 3:
		v = strings.ToLower(url.QueryEscape(v))
	case 4:
		v = strings.ReplaceAll(v, " ", "%20")
	case 5:
		v = pick(g, []string{"", "x", "fox", "red%2520fox"})
	}
	text := match.Name + "=" + v
	if g.chance(5) {
		text = pick(g,
			[]string{match.Name, "=" + v, "&" + text, match.Name + "==" + v, strings.ToUpper(match.Name) + "=" + v,
				url.QueryEscape(match.Name) + "=" + v})
	}
	return strings.ReplaceAll(text, "#", "%23") // no client sends a fragment
}

func (g *Grammar) header(f *Form, match value) {
	v := match.Value
	if match.Type == regex {
		v = pick(g, []string{"blue", "red", "green", "curl/8", "s=1", "a; s=1", "Bearer x", "a.test", "m1", "m2", ""})
	}
	switch match.Name {
	case "host", "transfer-encoding", "connection":
		return // Form draws the host elsewhere, and the other headers would change the framing
	case "upgrade":
		f.Header = append(f.Header,
			[2]string{"connection", pick(g, []string{"Upgrade", "keep-alive, Upgrade", "upgrade"})})
		v = pick(g, []string{"websocket", "WebSocket", "TLS/1.2", "h2c", "websocket, foo", "foo"})
	case "expect":
		return // the body would have to wait for a 100 response
	case "x_under":
		if !g.chance(15) { // Envoy rejects all such headers
			return
		}
	}
	name := match.Name
	if g.chance(20) {
		name = strings.ToUpper(name)
	}
	f.Header = append(f.Header, [2]string{name, v})
	switch {
	case g.chance(15) && name != "content-length":
		f.Header = append(f.Header, [2]string{match.Name, pick(g, []string{"blue", "red", "x", v, ""})})
	case g.chance(5):
		f.Header[len(f.Header)-1][1] = " \t" + v + " "
	}
}

func (g *Grammar) body(f *Form) {
	upgrade := slices.ContainsFunc(f.Header, func(h [2]string) bool { return strings.EqualFold(h[0], "upgrade") })
	if upgrade { // the body of another method would not end
		f.Method = "GET"
	}
	if f.Method != "POST" && f.Method != "PUT" {
		return
	}
	switch g.IntN(4) {
	case 0:
		f.Model = pick(g, []string{"m1", "m2", "m3", "other"})
		f.Body = fmt.Sprintf(`{"model": %q, "n": 1}`, f.Model)
	case 1:
		f.Body = `{"n": 1}`
	}
}

func (f *Form) Wire() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/%s\r\nHost: %s\r\n", f.Method, f.Target, f.Version, f.Host)
	for _, h := range f.Header {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	if f.Body != "" || f.Method == "POST" || f.Method == "PUT" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(f.Body))
	}
	b.WriteString("\r\n" + f.Body)
	return []byte(b.String())
}

// Query returns the arguments of the page /explain.
func (f *Form) Query(address string) url.Values {
	q := url.Values{"url": {"http://" + address + f.Target}, "method": {f.Method}, "model": {f.Model},
		"header": {"Host: " + f.Host}}
	for _, h := range f.Header {
		q.Add("header", h[0]+": "+h[1])
	}
	return q
}

// Args returns the arguments of penstock explain.
func (f *Form) Args(address string) []string {
	q := f.Query(address)
	args := []string{"explain", q.Get("url"), "-X", f.Method, "-o", "json"}
	for _, h := range q["header"] {
		args = append(args, "-H", h)
	}
	if f.Model != "" {
		args = append(args, "--model", f.Model)
	}
	return args
}
