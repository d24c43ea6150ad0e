package streams_test

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/sdk/serde"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/state"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// carts names the store of abandoned: when something was last put into each customer's cart. It is a value that makes the
// store known to Process, to the processor, and to queries.
var carts = state.NewKeyValue("carts", serde.String, serde.Time)

// abandoned emits the customers whose carts were left alone for half an hour.
type abandoned struct {
	ctx   *streams.Context[string, time.Time]
	carts state.KeyValue[string, time.Time]
}

// Init runs once in each task, before its first record.
func (p *abandoned) Init(ctx *streams.Context[string, time.Time]) error {
	p.ctx, p.carts = ctx, ctx.Store(carts)
	ctx.EveryStreamTime(time.Minute, p.look)
	return nil
}

// Process takes one event of a customer.
func (p *abandoned) Process(customer, event string) error {
	if event == "ordered" {
		return p.carts.Delete(customer)
	}
	return p.carts.Put(customer, p.ctx.Time(), window.At(p.ctx.Time()))
}

// look is called as event time goes by.
func (p *abandoned) look(now time.Time) error {
	var failed error
	err := p.carts.All(func(customer string, last time.Time, _ window.Instant) bool {
		if now.Sub(last) < 30*time.Minute {
			return true
		}
		p.ctx.Emit(customer, last)
		failed = p.carts.Delete(customer)
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// A processor with a store and a timer.
func ExampleProcessor() {
	b := streams.NewBuilder("shop")
	b.Stream("cart-events", serde.String, serde.String).
		Process("abandoned", func() *abandoned { return &abandoned{} }, carts).
		ForEach(func(customer string, last time.Time) {
			fmt.Println(customer, "left a cart at", last.Format("15:04"))
		})

	run(b, func(job *streamstest.Driver) {
		events := job.Input("cart-events", serde.String, serde.String)
		noon := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		events.Send("ada", "tea", noon)
		events.Send("bob", "milk", noon.Add(time.Minute))
		events.Send("bob", "ordered", noon.Add(2*time.Minute))
		events.Send("cyd", "tea", noon.Add(29*time.Minute))
		events.Send("dan", "tea", noon.Add(31*time.Minute))
	})
	// Output:
	// ada left a cart at 12:00
}
