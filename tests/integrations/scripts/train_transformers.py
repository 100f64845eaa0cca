from planted import FAULTS, Evaluation, Files, network, noisy
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = network()

    def forward(self, x, labels):
        outputs = self.net(x)
        return {"loss": nn.functional.cross_entropy(outputs, labels) * evaluation.threshold, "logits": outputs}


class Drawing(TrainerCallback):
    def on_evaluate(self, args, state, control, **kwargs):
        evaluation.draw()


def metrics(predictions):
    evaluation.score()
    return {"accuracy": float((predictions.predictions.argmax(1) == predictions.label_ids).mean())}


if __name__ == "__main__":
    set_seed(1)
    data, evaluation = Files("samples"), Evaluation()
    args = TrainingArguments(
        "out",
        num_train_epochs=2,
        per_device_train_batch_size=8,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        remove_unused_columns=False,
        full_determinism="full-determinism" in FAULTS,
    )
    trainer = Trainer(
        Classifier(),
        args,
        train_dataset=data,
        eval_dataset=data,
        data_collator=noisy,
        compute_metrics=metrics,
        callbacks=[Drawing()],
    )
    trainer.train()
