package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	"k8s.io/client-go/rest"
)

// longestResponse bounds a response of another operator's API server, in bytes. A decoded response
// may take a hundred times as much memory.
const longestResponse = 4 << 20

var errTooLong = fmt.Errorf("the response is longer than %d bytes", longestResponse)

func tooLong(err error) bool { return errors.Is(err, errTooLong) }

// BoundResponses makes responses above longestResponse fail. It does not limit watches, because the
// client bounds each of their events.
func BoundResponses(c *rest.Config) {
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return &boundResponses{next} })
}

type boundResponses struct{ next http.RoundTripper }

func (b *boundResponses) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err == nil && r.URL.Query().Get("watch") == "" {
		resp.Body = &boundBody{resp.Body, longestResponse}
	}
	return resp, err
}

func (b *boundResponses) WrappedRoundTripper() http.RoundTripper { return b.next }

type boundBody struct {
	io.ReadCloser
	left int
}

func (b *boundBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLong
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	if b.left -= n; b.left < 0 {
		return n, errTooLong
	}
	return n, err
}

func sizeOf(obj any) int64 {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return 0
	}
	return int64(v.Elem().Type().Size()) + below(v.Elem())
}

var timeType = reflect.TypeFor[time.Time]() // not followed: all values share one time.Location

func below(v reflect.Value) (bytes int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return int64(v.Elem().Type().Size()) + below(v.Elem())
	case reflect.Struct:
		if v.Type() == timeType {
			return 0
		}
		for i := range v.NumField() {
			bytes += below(v.Field(i))
		}
	case reflect.Array, reflect.Slice:
		if v.Kind() == reflect.Slice {
			bytes = int64(v.Cap()) * int64(v.Type().Elem().Size())
		}
		if k := v.Type().Elem().Kind(); k <= reflect.Complex128 { // numbers have no references
			return bytes
		}
		for i := range v.Len() {
			bytes += below(v.Index(i))
		}
	case reflect.Map:
		one := int64(v.Type().Key().Size() + v.Type().Elem().Size())
		bytes = 48 + int64(v.Len())*one*2
		for it := v.MapRange(); it.Next(); {
			bytes += below(it.Key()) + below(it.Value())
		}
	default:
	}
	return bytes
}
