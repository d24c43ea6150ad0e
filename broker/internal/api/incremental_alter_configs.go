package api

import (
	"context"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/broker/internal/cluster"
	"github.com/millrace/millrace/broker/internal/settings"
)

// alterTimeout bounds a change of settings: the request names no time.
const alterTimeoutMillis = 30_000

// IncrementalAlterConfigs (key 44), versions 0 and 1.
//
// KIP-339. Settings of topics can be changed; those of brokers are given at
// their start, so changing them is refused.
//
// Errors of a resource: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
// INVALID_CONFIG (an unknown setting, a bad value, adding to what is no list),
// INVALID_REQUEST (a resource or a setting given twice, a kind of resource that
// has no settings here), REQUEST_TIMED_OUT.
func (s *Service) incrementalAlterConfigs(r *Request, in *kmsg.IncrementalAlterConfigsRequest, reply Reply) {
	s.async(adminTimeout(alterTimeoutMillis), func(ctx context.Context) {
		resp := in.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
		resp.Resources = make([]kmsg.IncrementalAlterConfigsResponseResource, len(in.Resources))
		var changes []cluster.SettingsChange
		var places []int // where in the reply each change's outcome goes
		for i := range in.Resources {
			asked, out := &in.Resources[i], &resp.Resources[i]
			out.ResourceType, out.ResourceName = asked.ResourceType, asked.ResourceName
			change, err := s.settingsChange(in, i)
			if err != nil {
				out.ErrorCode, out.ErrorMessage = errorCode(err), errorText(err)
				continue
			}
			changes, places = append(changes, change), append(places, i)
		}
		for i, changed := range s.Cluster.SetTopicSettings(ctx, changes, in.ValidateOnly) {
			out := &resp.Resources[places[i]]
			out.ErrorCode, out.ErrorMessage = errorCode(changed.Err), errorText(changed.Err)
		}
		reply(resp)
	})
}

// settingsChange reads what is asked for one resource.
func (s *Service) settingsChange(in *kmsg.IncrementalAlterConfigsRequest, i int) (cluster.SettingsChange, error) {
	asked := &in.Resources[i]
	for _, other := range in.Resources[:i] {
		if other.ResourceType == asked.ResourceType && other.ResourceName == asked.ResourceName {
			return cluster.SettingsChange{}, refusal(kerr.InvalidRequest, "Resource %s is given twice.", asked.ResourceName)
		}
	}
	if asked.ResourceType != kmsg.ConfigResourceTypeTopic {
		return cluster.SettingsChange{}, refusal(kerr.InvalidRequest, "Only settings of topics can be changed while brokers run, not those of a %s.", asked.ResourceType)
	}
	if err := cluster.CheckTopicName(asked.ResourceName); err != nil {
		return cluster.SettingsChange{}, err
	}
	t, err := topicRef{name: asked.ResourceName}.find(s.Cluster.Image())
	if err != nil {
		return cluster.SettingsChange{}, err
	}
	change := cluster.SettingsChange{Topic: t.Name, Set: map[string]string{}}
	entries := s.Cluster.DescribeTopic(t)
	seen := map[string]bool{}
	for _, c := range asked.Configs {
		if seen[c.Name] {
			return change, refusal(kerr.InvalidRequest, "Setting %s is given twice.", c.Name)
		}
		seen[c.Name] = true
		if err := addChange(&change, entries, c); err != nil {
			return change, err
		}
	}
	return change, nil
}

// addChange adds one operation. Names and values are checked with the whole.
func addChange(change *cluster.SettingsChange, entries []settings.Entry, c kmsg.IncrementalAlterConfigsRequestResourceConfig) error {
	if c.Op == kmsg.IncrementalAlterConfigOpDelete {
		change.Unset = append(change.Unset, c.Name)
		return nil
	}
	if c.Value == nil {
		return refusal(kerr.InvalidConfig, "Setting %s is given no value.", c.Name)
	}
	switch c.Op {
	case kmsg.IncrementalAlterConfigOpSet:
		change.Set[c.Name] = *c.Value
		return nil
	case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
	default:
		return refusal(kerr.InvalidRequest, "Operation %d on setting %s is not known.", int8(c.Op), c.Name)
	}
	at := slices.IndexFunc(entries, func(e settings.Entry) bool { return e.Name == c.Name })
	if at < 0 || entries[at].Type != settings.List {
		return refusal(kerr.InvalidConfig, "Setting %s is no list, so nothing can be added to it or taken from it.", c.Name)
	}
	change.Set[c.Name] = changedList(entries[at].Value, *c.Value, c.Op == kmsg.IncrementalAlterConfigOpAppend)
	return nil
}

// changedList adds items to a list that does not have them, or takes them away.
func changedList(have, items string, add bool) string {
	split := func(list string) []string {
		return slices.DeleteFunc(strings.Split(list, ","), func(item string) bool { return item == "" })
	}
	list, changed := split(have), split(items)
	list = slices.DeleteFunc(list, func(item string) bool { return slices.Contains(changed, item) })
	if add {
		list = append(list, changed...)
	}
	return strings.Join(list, ",")
}
